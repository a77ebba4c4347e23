import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { containerId } from '../../services/agent/dialects/openai/ids.ts';
import { cpuMsOf, eventually, memoryOf } from '../api/harness.ts';
import { type AgentProcess, readAnswer, startAgentProcess } from './agent-harness.ts';
import { type ModelServer, startModelServer } from './model-server.ts';

/** CPU time that the agent may use for one refused request. */
const mostMs = 400;
const maxOpen = 1000;

let model: ModelServer;
let agent: AgentProcess;
let chat: string;
beforeAll(async () => {
  model = await startModelServer();
  agent = await startAgentProcess({ CODEBOX_MODEL_URL: `${model.url}/v1`, CODEBOX_MODEL: 'compatible/scripted' });
  chat = (await agent.createChat()).id;
});
afterAll(async () => {
  await agent?.dispose();
  await model?.[Symbol.asyncDispose]();
});

/** Sends a request with exactly these headers; resolves with its status and body. */
const raw = async (method: string, path: string, headers: string[]) => {
  const { host } = new URL(agent.url);
  const sent = request(`${agent.url}${path}`, {
    method,
    headers: ['Host', host, 'Authorization', `Bearer ${agent.gateway.key}`, ...headers],
  });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() };
};
const post = (path: string, body: string, type = 'application/json') =>
  agent.call(path, { method: 'POST', body, headers: { 'content-type': type } });

interface Operation {
  requestBody?: { content: Record<string, unknown> };
}

/** Resolves with all paths that take a JSON body, with the chat, or its container, filled in. */
const jsonPaths = async (): Promise<{ method: string; path: string }[]> => {
  const { paths } = (await (await agent.call('/openapi.json')).json()) as {
    paths: Record<string, Record<string, Operation>>;
  };
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { requestBody }]) => requestBody?.content['application/json'])
      .map(([method]) => ({
        method: method.toUpperCase(),
        path: path
          .replace('{chat}', chat)
          .replace('{container}', containerId(chat))
          .replaceAll(/\{\w+\}/g, 'none'),
      })),
  );
};

test.each([
  '/healthz',
  '/v1/chats',
  '/v1/responses/none',
  '/v1/containers/none',
  '/gpt-code-ui/models',
  '/nowhere',
  '/',
])('two Host headers are a 400 for %s', async (path) => {
  expect((await raw('GET', path, ['host', 'other.example'])).status).toBe(400);
});

test('long URLs and headers are refused, never with a 5xx', async () => {
  for (const [path, headers] of [
    [`/v1/chats/${'a'.repeat(12_000)}`, []],
    [`/v1/files/${'a'.repeat(12_000)}/x`, []],
    [`/v1/chats/${chat}/files/${'a/'.repeat(6000)}`, []],
    [`/v1/containers/${'a'.repeat(12_000)}/files`, []],
    [`/gpt-code-ui/download?file=${'a'.repeat(12_000)}`, []],
    [`/v1/chats?${'a=b&'.repeat(3000)}`, []],
    [`/v1/chats/${chat}/terminal?ticket=${'a'.repeat(12_000)}`, []],
    ['/v1/chats', ['X-Long', 'a'.repeat(20_000)]],
    ['/v1/chats', ['X-CodeBox-User', 'a'.repeat(12_000)]],
    ['/v1/chats', Array.from({ length: 3000 }, () => ['X-Many', 'a']).flat()],
  ] as const) {
    const { status } = await raw('GET', path, [...headers]);
    expect(status, `${path.slice(0, 60)} ${headers[0]}`).toBeGreaterThanOrEqual(400);
    expect(status, `${path.slice(0, 60)} ${headers[0]}`).toBeLessThan(500);
  }
});

test('every path refuses bodies of too many keys or levels at little CPU cost', async () => {
  const paths = await jsonPaths();
  expect(paths.map(({ path }) => path)).toEqual(
    expect.arrayContaining([
      '/v1/responses',
      '/v1/chat/completions',
      '/v1/generate',
      '/v1/plot',
      '/gpt-code-ui/api/api',
      `/v1/containers/${containerId(chat)}/files`,
    ]),
  );
  const bodies = {
    keys: `{${Array.from({ length: 600_000 }, (_, n) => `"k${n}":1`).join()}}`,
    levels: `{"messages":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    cut: `{"messages":${'['.repeat(60)}`,
  };
  for (const { method, path } of paths)
    for (const [name, body] of Object.entries(bodies)) {
      const before = await cpuMsOf(agent.pid());
      const { status } = await agent.call(path, { method, body, headers: { 'content-type': 'application/json' } });
      expect(status, `${name} at ${method} ${path}`).toBe(name === 'cut' ? 400 : 413);
      expect((await cpuMsOf(agent.pid())) - before, `${name} at ${method} ${path}`).toBeLessThan(mostMs);
    }
});

const many = (count: number, value: string) => Array(count).fill(value).join();
const messages = '"messages":[{"role":"user","content":"x"}]';

test.each([
  ['/v1/chat/completions', `{"messages":[${many(130_000, '0')}]}`],
  ['/v1/chat/completions', `{"messages":[{"role":"user","content":[${many(130_000, '0')}]}]}`],
  ['/v1/chat/completions', `{${messages},"tools":[${many(65_000, '{}')}]}`],
  [
    '/v1/chat/completions',
    `{${messages},"metadata":{${Array.from({ length: 60_000 }, (_, n) => `"k${n}":1`).join()}}}`,
  ],
  ['/v1/responses', `{"input":[${many(130_000, '0')}]}`],
  ['/v1/responses', `{"input":[{"type":"code_interpreter_call","outputs":[${many(130_000, '0')}]}]}`],
  ['/v1/responses', `{"input":[{"role":"user","content":[${many(130_000, '0')}]}]}`],
  ['/v1/plot', `{"prompt":"x","data":[${many(30_000, '{"a":[]}')}]}`],
  ['/v1/plot', `{"prompt":"x","data":[${many(9000, '{}')},{${Array.from({ length: 9000 }, (_, n) => `"k${n}":1`)}}]}`],
  ['/v1/generate', `{"message":"x","files":[${many(2000, '0')}]}`],
])('%s refuses thousands of faults at little CPU cost, and lists only a few (%#)', async (path, body) => {
  const before = await cpuMsOf(agent.pid());
  const response = await post(path, body);
  expect(response.status).toBe(400);
  expect((await response.text()).length).toBeLessThan(20_000);
  expect((await cpuMsOf(agent.pid())) - before).toBeLessThan(mostMs);
});

test.each(['/gpt-code-ui/upload', '/v1/chats/{chat}/files', '/v1/containers/{container}/files'])(
  '%s refuses forms with thousands of parts or huge headers at little CPU cost',
  async (path) => {
    const target = path.replace('{chat}', chat).replace('{container}', containerId(chat));
    const type = 'multipart/form-data; boundary=b';
    const part = (headers: string) => `--b\r\n${headers}\r\n\r\nx\r\n`;
    for (const body of [
      many(100_000, part('Content-Disposition: form-data; name="file"')).replaceAll('\n,', '\n'),
      part(`Content-Disposition: form-data; name="file"; filename="${'a'.repeat(5_000_000)}"`),
      part(`Content-Disposition: form-data; name="file"; ${'a=b; '.repeat(1_000_000)}`),
      part(many(500_000, 'X-A: b').replaceAll(',', '\r\n')),
      '--b'.repeat(2_000_000),
      '',
    ]) {
      const before = await cpuMsOf(agent.pid());
      const status = await post(target, `${body}--b--\r\n`, type).then(
        (response) => response.status,
        () => 'cut' as const,
      );
      if (status !== 'cut') expect([400, 413]).toContain(status);
      expect((await cpuMsOf(agent.pid())) - before).toBeLessThan(mostMs);
    }
    expect((await agent.call('/v1/chats')).status).toBe(200);
  },
);

test('the open streams of an owner are bounded, and ended ones make room', async () => {
  const reply = Promise.withResolvers<void>();
  model.script({ text: 'At last.', after: reply.promise });
  const asking = await agent.call(`/v1/chats/${chat}/messages`, {
    method: 'POST',
    body: '{"content":"Wait."}',
    headers: { accept: 'application/x-ndjson' },
  });
  const message = asking.headers.get('content-location');
  const before = await memoryOf(agent.pid());
  const over = new AbortController();
  const opened: number[] = [];
  const bodies: Promise<unknown>[] = [];
  const open = async () => {
    const response = await agent.call(`${message}/events`, { signal: over.signal });
    opened.push(response.status);
    if (response.status !== 200) expect(response.headers.get('retry-after')).toBe('5');
    bodies.push(response.text().catch(() => undefined));
  };
  const wanted = maxOpen + 200;
  while (opened.length < wanted) await Promise.all(Array.from({ length: 50 }, open));
  // The stream of the question itself counts as well.
  expect(opened.filter((status) => status === 200).length).toBe(maxOpen - 1);
  expect(opened.filter((status) => status === 429).length).toBe(wanted - maxOpen + 1);
  expect((await memoryOf(agent.pid())).now - before.now).toBeLessThan(256 * 1024 * 1024);
  // A visitor counts as another owner.
  expect((await agent.call('/v1/chats', { key: '' })).status).toBe(200);
  over.abort();
  await eventually(async () => (await agent.call('/v1/chats')).status === 200);
  reply.resolve();
  const events = await Array.fromAsync(readAnswer(asking));
  expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
  await Promise.all(bodies);
});
