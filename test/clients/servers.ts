import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import type { ExecutionEvent, Run, Template } from '#contract';

const serve = async (handle: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>) => {
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

/** A server by which a program makes the test do something, such as `POST /cut`, and waits until it is done. */
export const openControl = (actions: Record<string, () => unknown>) =>
  serve(async (request, response) => {
    await actions[request.url?.slice(1) ?? '']?.();
    response.end();
  });

const limits = { cpus: 1, memoryMb: 512, diskMb: 512, pids: 64 };
const templateOf = (name: string): Template => ({
  name,
  ...{ language: 'python', languages: null, limits, maxLimits: limits, network: 'none' },
  ...{ idleSeconds: 60, maxLifetimeSeconds: 60, warm: 0, gpus: null, version: null },
});
const done: Run = {
  ...{ status: 'ok', exitCode: null, signal: null, text: '42', error: null, stdout: '', stderr: '' },
  ...{ outputs: [], durationMs: 1, cpuMs: null, files: [] },
};

/** A server that defers requests as gateways do, returns pages of one item, and for one box responds as a proxy without a gateway. */
export const openDeferring = async () => {
  const asked: { call: string; key: string | undefined }[] = [];
  const server = await serve((request, response) => {
    const call = `${request.method} ${request.url}`;
    const isFirst = !asked.some((earlier) => earlier.call === call);
    asked.push({ call, key: request.headers['idempotency-key']?.toString() });
    const reply = (status: number, body: unknown, headers = {}) =>
      response.writeHead(status, headers).end(JSON.stringify(body));
    if (call === 'GET /v1/boxes/proxy') return void response.writeHead(502).end('<h1>Bad Gateway</h1>');
    if (request.method === 'POST' && isFirst) return void reply(503, '', { 'retry-after': '1' });
    if (call === 'POST /v1/run') return void reply(200, done);
    const isLast = call.includes('cursor=next');
    reply(200, { items: [templateOf(isLast ? 'second' : 'first')], nextCursor: isLast ? null : 'next' });
  });
  return { ...server, asked };
};

const events: ExecutionEvent[] = [
  { seq: 1, type: 'started', context: 'ctx-a', language: 'python' },
  { seq: 2, type: 'done', status: 'ok', durationMs: 1, stateLost: false },
];
const [started = '', ended = ''] = events.map((event) => `${JSON.stringify(event)}\n`);

/** A server whose responses are late, lost or broken. `asked` counts its calls. */
export const openTroubled = async () => {
  const asked: Record<string, number> = {};
  const server = await serve(async (request, response) => {
    const call = `${request.method} ${request.url}`;
    const count = (asked[call] ?? 0) + 1;
    asked[call] = count;
    const location = { 'content-location': '/v1/boxes/box-a/executions/exe-a' };
    if (call === 'DELETE /v1/boxes/busy/files/old') {
      response.writeHead(count > 1 ? 204 : 503, { 'retry-after': '0' }).end();
    } else if (call === 'PUT /v1/templates/own') {
      response.destroy();
    } else if (call === 'POST /v1/boxes/late/executions') {
      await setTimeout(3000);
      response.writeHead(200, location).end(started + ended);
    } else if (call === 'POST /v1/boxes/slow/executions') {
      response.writeHead(200, location).flushHeaders();
      await setTimeout(1500);
      response.end(started + ended);
    } else if (call === 'GET /v1/boxes/cut/executions/exe-a/events') {
      response.write(started, () => response.destroy());
    } else if (call === 'GET /v1/boxes/cut/executions/exe-a/events?after=1' && count > 1) {
      response.end(ended);
    } else if (call === 'GET /v1/boxes/broken') {
      response.writeHead(500, { 'content-length': 100 }).write('{', () => response.destroy());
    } else {
      response.writeHead(504).end('<h1>Gateway Timeout</h1>');
    }
  });
  return { ...server, asked };
};
