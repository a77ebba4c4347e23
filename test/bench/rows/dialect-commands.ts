import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { type Contender, inTurns, timed } from '../in-turns.ts';
import { post } from '../post.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';

const nativeName = 'a command by the API of CodeBox';
const byUserName = 'a command by the API of CodeBox, in the box of a user';
const freshName = '`POST /v1/run`';
const sameCallLimit = 1.25;
const command = 'echo 2';
const settings = { CODEBOX_DIALECTS: 'librechat,openterminal,piston' };

/** Measures a short program through each dialect that runs programs, in turns with the native API: in a living box, and in a fresh one. */
export const measureDialectCommands = async (
  options: GatewayOptions,
  { rounds, warmUp, freshRounds }: { rounds: number; warmUp: number; freshRounds: number },
): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway({ ...options, settings }));
  const { url, key } = gateway;
  const headers = { authorization: `Bearer ${key}` };
  const call = async <T>(path: string, body: object, more = {}): Promise<T> =>
    JSON.parse((await post(gateway, `${url}${path}`, body, { ...headers, ...more })).text) as T;

  const run = async (box: string) =>
    (await call<{ stdout: string }>(`/v1/boxes/${box}/commands`, { command })).stdout === '2\n';
  const openOfUser = () => call<{ id: string }>('/v1/boxes', { user: 'bench', reuse: true });
  const { id: box } = await openOfUser();
  const inBox: Record<string, Contender> = {
    [nativeName]: timed(() => run(box)),
    [byUserName]: timed(async () => await run((await openOfUser()).id)),
    LibreChat: timed(await throughLibreChat(gateway)),
    'Open Terminal': timed(async () => {
      const path = '/openterminal/execute?wait=10';
      const { output } = await call<{ output: { data: string }[] }>(path, { command }, { 'x-user-id': 'bench' });
      return output[0]?.data === '2\n';
    }),
  };
  // With arguments code runs as a program, as Piston runs it; by itself it would run in a kernel.
  const program = { language: 'bash', code: command, args: ['none'] };
  const piston = { language: 'bash', version: '*', files: [{ content: command }] };
  const inFreshBox: Record<string, Contender> = {
    [freshName]: timed(async () => (await call<{ stdout: string }>('/v1/run', program)).stdout === '2\n'),
    Piston: timed(
      async () => (await call<{ run: { stdout: string } }>('/api/v2/execute', piston)).run.stdout === '2\n',
    ),
  };
  const samples = { ...(await inTurns(inBox, rounds, warmUp)), ...(await inTurns(inFreshBox, freshRounds, 2)) };
  const measures = Object.entries(samples).map(([name, values]) => measure(name, 'ms', values));
  const sameCall = [
    ratio(measures, 'LibreChat', byUserName),
    ratio(measures, 'Open Terminal', byUserName),
    ratio(measures, 'Piston', freshName),
  ];
  return {
    id: 'dialect-commands',
    title: '`echo 2` through the dialects that run programs',
    measures,
    ratios: [...sameCall, ...['LibreChat', 'Open Terminal'].map((name) => ratio(measures, name, nativeName))],
    bars: sameCall.map(({ name, p50 }) => atMost(`${name} at p50`, p50, sameCallLimit, '×')),
    notes: [
      'The dialect of OpenAI runs no code. LibreChat and Open Terminal name a session and a user, as the box of a user does natively; Piston uses a fresh box each time.',
    ],
  };
};

const throughLibreChat = async (gateway: GatewayProcess) => {
  const { url, key } = gateway;
  const call = async (session?: string) => {
    const body = { lang: 'bash', code: command, ...(session && { session_id: session }) };
    const { text } = await post(gateway, `${url}/librechat/exec`, body, { 'x-api-key': key });
    return JSON.parse(text) as { session_id: string; stdout: string };
  };
  const { session_id: session } = await call();
  return async () => (await call(session)).stdout === '2\n';
};
