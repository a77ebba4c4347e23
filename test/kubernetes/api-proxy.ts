import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';

/** A request to the API server. The path includes the query. */
interface ApiRequest {
  method: string;
  path: string;
}

/**
 * The fault of a request: the proxy refuses it with this status, or as a server that has just started and not read its roles, does not
 * respond, or loses the response after the server has acted.
 */
export type Fault = number | 'roles not read' | 'silence' | 'lost response' | undefined;

/** Stands between a gateway and an API server, and fails as API servers do. */
export interface ApiProxy extends AsyncDisposable {
  /** The path of a kubeconfig for the API server behind the proxy. */
  kubeconfig: string;
  /** Decides about each request; none fails by default. */
  faultOf: (request: ApiRequest) => Fault;
  /** Changes the path of each request; it is kept by default. */
  rewrite: (path: string) => string;
  /** Returns how many connections were opened to it so far. */
  connections: () => number;
  /** Cuts all connections, those of watches too; new ones work. */
  cut(): void;
}

/** Opens a proxy to the cluster of a kubeconfig, and writes its own beside that. */
export const openApiProxy = async (kubeconfig: string): Promise<ApiProxy> => {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new Error('the kubeconfig names no cluster');
  const ca = Buffer.from(cluster.caData ?? '', 'base64');

  const server = createServer((near, response) => {
    const { method = '', url = '', headers } = near;
    const fault = proxy.faultOf({ method, path: url });
    if (fault === 'silence') return;
    if (typeof fault === 'number' || fault === 'roles not read') {
      const code = fault === 'roles not read' ? 403 : fault;
      const message =
        code !== fault ? 'pods is forbidden: User "gateway" cannot create resource "pods" in API group ""' : '';
      near.resume();
      response.writeHead(code, { 'content-type': 'application/json', 'retry-after': '1' });
      response.end(JSON.stringify({ kind: 'Status', status: 'Failure', code, message }));
      return;
    }
    const { host } = new URL(cluster.server);
    const sent = { method, ca, headers: { ...headers, host } };
    const far = request(`${cluster.server}${proxy.rewrite(url)}`, sent, (answer: IncomingMessage) => {
      if (fault === 'lost response') return near.destroy();
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    far.once('error', () => near.destroy());
    response.once('close', () => far.destroy());
    near.pipe(far);
  });
  let connections = 0;
  server.on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;

  const account = new KubeConfig();
  const through = { ...cluster, server: `http://127.0.0.1:${port}`, skipTLSVerify: true };
  account.loadFromClusterAndUser(through, config.getCurrentUser() ?? { name: 'nobody' });
  // A file of its own: tests with proxies run at the same time.
  const path = `${kubeconfig}-proxied-${port}`;
  await writeFile(path, account.exportConfig(), { mode: 0o600 });
  const proxy: ApiProxy = {
    kubeconfig: path,
    faultOf: () => undefined,
    rewrite: (path) => path,
    connections: () => connections,
    cut: () => server.closeAllConnections(),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
  return proxy;
};
