import { readFile } from 'node:fs/promises';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import { join } from 'node:path';
import { eventually, type RunningGateway } from './harness.ts';

/** Uploads files of `servers/` into a box. */
export const uploadServers = async (gateway: RunningGateway, box: string, ...names: string[]): Promise<void> => {
  for (const name of names) {
    const body = await readFile(join(import.meta.dirname, 'servers', name));
    await gateway.call(`/v1/boxes/${box}/files/${name}`, { method: 'PUT', body });
  }
};

/** Starts a server in a box and waits until something listens on its port. */
export const startServer = async (
  gateway: RunningGateway,
  box: string,
  command: string,
  port: number,
  probe = '/',
): Promise<void> => {
  await gateway.post(`/v1/boxes/${box}/commands`, { command, detach: true });
  await eventually(async () => (await gateway.call(`/v1/boxes/${box}/ports/${port}${probe}`)).status !== 502);
};

/** Sends a request whose path is not normalized, with the key unless `options` has another; resolves with the response and its body as Latin-1. */
export const rawRequest = (
  gateway: Pick<RunningGateway, 'url' | 'key'>,
  path: string,
  options: RequestOptions = {},
  body?: string,
) =>
  new Promise<{ response: IncomingMessage; text: string }>((done, failed) => {
    const { hostname, port } = new URL(gateway.url);
    const isChunked = options.headers !== undefined && 'transfer-encoding' in options.headers;
    const length = body === undefined || isChunked ? {} : { 'content-length': Buffer.byteLength(body) };
    const headers = { authorization: `Bearer ${gateway.key}`, ...length, ...options.headers };
    const sent = request({ hostname, port, path, ...options, headers }, async (response) => {
      let text = '';
      try {
        for await (const chunk of response.setEncoding('latin1')) text += chunk;
        done({ response, text });
      } catch (error) {
        failed(error);
      }
    });
    sent.once('error', failed);
    sent.end(body);
  });
