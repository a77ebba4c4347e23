import { execFileSync } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { CoreV1Api, KubeConfig, makeInformer, type V1Pod } from '@kubernetes/client-node';
import { privateKeyOf, publicKeyOf } from '../../services/gateway/box-server/transport/endpoint.ts';
import { boxPort, instanceLabel } from '../../services/gateway/drivers/kubernetes/pods/pod.ts';

/**
 * The box servers of all simulated pods in one process: each pod has an address of this host, and a request is for the pod at whose address it
 * arrives. Executions end at once. Arguments: the path of a kubeconfig, and the namespace.
 */
const [kubeconfig = '', namespace = ''] = process.argv.slice(2);
const context = '00000000-0000-4000-8000-000000000000';
interface Instance {
  id: string;
  context: SecureContext;
}
const instances = new Map<string, Instance>();
const served = new WeakMap<object, Instance>();

/** A self-signed certificate, whose key is replaced for each instance: only the key of a box server is compared. */
const makeCertificate = () => {
  const argv = ['-x509', '-newkey', 'ed25519', '-nodes', '-keyout', '/dev/null', '-subj', '/CN=box', '-days', '365'];
  const der = execFileSync('openssl', ['req', ...argv, '-outform', 'DER'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const at = der.indexOf(publicKeyOf('any').subarray(0, -32));
  return (key: Buffer): string => {
    const copy = Buffer.from(der);
    key.copy(copy, at);
    return `-----BEGIN CERTIFICATE-----\n${copy.toString('base64')}\n-----END CERTIFICATE-----\n`;
  };
};
const certificateOf = makeCertificate();

const contextOf = (token: string): SecureContext => {
  const key = privateKeyOf(token).export({ format: 'pem', type: 'pkcs8' });
  return createSecureContext({ key, cert: certificateOf(publicKeyOf(token)), minVersion: 'TLSv1.3' });
};

const config = new KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(CoreV1Api);
const list = () => core.listNamespacedPod({ namespace, labelSelector: instanceLabel });
const informer = makeInformer<V1Pod>(config, `/api/v1/namespaces/${namespace}/pods`, list, instanceLabel);
const note = ({ metadata, spec, status }: V1Pod) => {
  const id = metadata?.labels?.[instanceLabel] ?? '';
  if (!status?.podIP || instances.get(status.podIP)?.id === id) return;
  const token = spec?.containers[0]?.env?.find(({ name }) => name === 'CODEBOX_TOKEN')?.value ?? '';
  instances.set(status.podIP, { id, context: contextOf(token) });
};
informer.on('add', note);
informer.on('update', note);
informer.on('delete', ({ status }) => void instances.delete(status?.podIP ?? ''));
informer.on('error', () => setTimeout(() => informer.start(), 500));
await informer.start();

const respond = (request: IncomingMessage, response: ServerResponse) => {
  const { method, url = '' } = request;
  if (method === 'PUT' && /^\/codebox\/executions\/[^/?]+$/.test(url)) {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    const started = { seq: 1, type: 'started', context, language: 'python' };
    const done = { seq: 2, type: 'done', status: 'ok', durationMs: 1, stateLost: false };
    response.end(`${JSON.stringify(started)}\n${JSON.stringify(done)}\n`);
    return;
  }
  const health = { status: 'ok', instance: served.get(request.socket)?.id, languages: ['python'] };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(url === '/codebox/health' ? health : { items: [] }));
};

const http = createServer((request, response) => {
  request.resume().once('end', () => respond(request, response));
});
const listener = createTcpServer((socket) => {
  const instance = instances.get(socket.localAddress ?? '');
  // A new pod whose address is not known here yet.
  if (instance === undefined) return void socket.destroy();
  const secure = new TLSSocket(socket, { isServer: true, secureContext: instance.context });
  served.set(secure, instance);
  secure.on('error', () => socket.destroy());
  http.emit('connection', secure);
});
listener.listen(boxPort, '0.0.0.0', () => process.stdout.write('listening\n'));
