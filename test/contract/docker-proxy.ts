import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { ContainerCreateOptions } from 'dockerode';

const socketPath = (process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock').slice('unix://'.length);

/** Sends a request on to the daemon; resolves with its response. */
const forward = async ({ method, url, headers }: IncomingMessage, body: string): Promise<IncomingMessage> => {
  const length = Buffer.byteLength(body);
  const sent = request({ socketPath, method, path: url, headers: { ...headers, 'content-length': length } });
  const [response] = await once(sent.end(body), 'response');
  return response;
};

/** The daemon as it would be if it had NVIDIA's runtime in its list. `requested` has the requests for devices of the containers that it was asked for. */
export const openDaemonWithGpus = async (path: string) => {
  const requested: unknown[] = [];
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = Buffer.concat(await incoming.toArray()).toString();
    if (incoming.url?.includes('/containers/create')) {
      const { HostConfig }: ContainerCreateOptions = JSON.parse(body);
      requested.push(HostConfig?.DeviceRequests);
    }
    const answer = await forward(incoming, body);
    if (!incoming.url?.endsWith('/info')) {
      answer.pipe(response.writeHead(answer.statusCode ?? 500, answer.headers));
      return;
    }
    const info = JSON.parse(Buffer.concat(await answer.toArray()).toString());
    response.end(JSON.stringify({ ...info, Runtimes: { ...info.Runtimes, nvidia: { path: 'nvidia' } } }));
  };
  // dockerode repeats the options of a container in the address of its request.
  const server = createServer({ maxHeaderSize: 1 << 20 }, (incoming, response) => {
    handle(incoming, response).catch(() => response.destroy());
  });
  await once(server.listen(path), 'listening');
  return {
    host: `unix://${path}`,
    requested,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
