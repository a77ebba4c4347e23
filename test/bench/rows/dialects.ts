import { toE2bKey } from '../../../services/gateway/dialects/e2b/key.ts';
import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { type Contender, inTurns, timed } from '../in-turns.ts';
import { post } from '../post.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { openKernels, runInKernel } from '../stock-jupyter.ts';

const nativeName = 'the API of CodeBox';
const byUserName = 'the API of CodeBox, with the box of a user';
const limit = 1.15;
/** Two requests of the native API, one for the box of a user and one for the code, are about this many times the second one. */
const oneCallLimit = 2;
const code = '1+1';
const settings = { CODEBOX_DIALECTS: 'codeboxapi,e2b,jupyter,mcp' };

type Headers = Record<string, string>;

/** Measures `1+1` in a box through each dialect that runs code in kernels, as its clients send it, in turns with the native API. */
export const measureDialects = async (
  options: GatewayOptions,
  { rounds, warmUp }: { rounds: number; warmUp: number },
): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway({ ...options, settings }));
  const box = await gateway.client.boxes.create();
  const kernels = stack.use(openKernels(`${gateway.url}/jupyter/${box.id}`, gateway.key));
  const kernel = await kernels.startKernel();
  const contenders: Record<string, Contender> = {
    [nativeName]: timed(async () => (await gateway.client.execute(box.id, code)).text === '2'),
    [byUserName]: timed(() => throughUser(gateway)),
    CodeBoxAPI: timed(await throughCodeBoxApi(gateway)),
    E2B: timed(await throughE2b(gateway)),
    Jupyter: timed(async () => (await runInKernel(kernel, code)).text === '2'),
    MCP: timed(await throughMcp(gateway)),
  };
  const samples = await inTurns(contenders, rounds, warmUp);
  const measures = Object.entries(samples).map(([name, values]) => measure(name, 'ms', values));
  // Clients of these two name a session, not a box: natively, that takes a request for the box of a user first.
  const sameCall = [
    ...['E2B', 'Jupyter'].map((name) => ratio(measures, name, nativeName)),
    ...['CodeBoxAPI', 'MCP'].map((name) => ratio(measures, name, byUserName)),
  ];
  const oneCall = ['CodeBoxAPI', 'MCP'].map((name) => ratio(measures, name, nativeName));
  return {
    id: 'dialects',
    title: '`1+1` through the dialects',
    measures,
    ratios: [...sameCall, ...oneCall],
    bars: [
      ...sameCall.map(({ name, p50 }) => atMost(`${name} at p50`, p50, limit, '×')),
      ...oneCall.map(({ name, p50 }) => atMost(`${name} at p50`, p50, oneCallLimit, '×')),
    ],
    notes: [
      'From the request to the complete response, over kept connections, with the requests that the clients of each dialect send but not those clients. Each dialect has a box of its own but Jupyter, whose client uses that of the native API in another kernel.',
    ],
  };
};

const throughUser = async (gateway: GatewayProcess): Promise<boolean> => {
  const { client, url, key } = gateway;
  const headers = { authorization: `Bearer ${key}` };
  const { id } = JSON.parse((await post(gateway, `${url}/v1/boxes`, { user: 'bench', reuse: true }, headers)).text);
  return (await client.execute(id, code)).text === '2';
};

const throughCodeBoxApi = async (gateway: GatewayProcess) => {
  const { url, key } = gateway;
  const headers = { authorization: `Bearer ${key}` };
  return async () =>
    (await post(gateway, `${url}/api/v2/codebox/bench/exec`, { code }, headers)).text === '<txt>2</txt>';
};

const throughE2b = async (gateway: GatewayProcess) => {
  const { url, key } = gateway;
  const made = await post(gateway, `${url}/v2/sandboxes`, { templateID: 'base' }, { 'x-api-key': toE2bKey(key) });
  const sandbox = JSON.parse(made.text) as Record<'sandboxID' | 'envdAccessToken' | 'trafficAccessToken', string>;
  const headers = {
    'e2b-sandbox-id': sandbox.sandboxID,
    'e2b-sandbox-port': '49999',
    'x-access-token': sandbox.envdAccessToken,
    'e2b-traffic-access-token': sandbox.trafficAccessToken,
  };
  return async () => (await post(gateway, `${url}/execute`, { code }, headers)).text.includes('"text":"2"');
};

const throughMcp = async (gateway: GatewayProcess) => {
  const { url, key } = gateway;
  const headers: Headers = { authorization: `Bearer ${key}`, accept: 'application/json, text/event-stream' };
  const call = (method: string, params: object, id: number | undefined, more: Headers = {}) =>
    post(gateway, `${url}/mcp`, { jsonrpc: '2.0', id, method, params }, { ...headers, ...more });
  const version = '2025-06-18';
  const client = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
  const session = (await call('initialize', client, 0)).headers['mcp-session-id'];
  if (typeof session !== 'string') throw new Error('the server returned no session');
  const named = { 'mcp-session-id': session, 'mcp-protocol-version': version };
  await call('notifications/initialized', {}, undefined, named);
  let id = 0;
  return async () => {
    id += 1;
    const { text } = await call('tools/call', { name: 'run_code', arguments: { code } }, id, named);
    return text.includes('"2"');
  };
};
