import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve } from 'node:path';

const project = resolve(import.meta.dirname, '../..');
const folders: Record<string, string> = { contract: 'services/contract', zod: 'node_modules/zod' };
const page = `<!doctype html><meta charset="utf-8"><title>app</title><link rel="icon" href="data:,">
<script type="importmap">{"imports": {"zod": "/zod/index.js", "#contract": "/contract/index.ts"}}</script>
<script type="module">import * as contract from '#contract'; globalThis.contract = contract;</script>`;

/** Starts the server of an app: it serves a page and the modules of the contract, and proxies `/v1` to the gateway with the key of the app. */
export const servePage = async (gateway: { url: string; key: string }): Promise<AsyncDisposable & { url: string }> => {
  const server = createServer((incoming, outgoing) => {
    const path = new URL(incoming.url ?? '/', 'http://app').pathname;
    if (path.startsWith('/v1/')) return passOn(gateway, incoming, outgoing);
    if (path === '/') return void outgoing.setHeader('content-type', 'text/html').end(page);
    readModule(path).then(
      (source) => outgoing.setHeader('content-type', 'text/javascript').end(source),
      () => outgoing.writeHead(404).end(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
};

const readModule = async (path: string): Promise<string> => {
  const [, folder = '', ...rest] = path.split('/');
  const source = await readFile(join(project, folders[folder] ?? 'nowhere', ...rest), 'utf8');
  return path.endsWith('.ts') ? stripTypeScriptTypes(source) : source;
};

const passOn = (gateway: { url: string; key: string }, incoming: IncomingMessage, outgoing: ServerResponse): void => {
  const headers = { ...incoming.headers, authorization: `Bearer ${gateway.key}` };
  const onward = request(`${gateway.url}${incoming.url}`, { method: incoming.method, headers }, (response) => {
    outgoing.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
};
