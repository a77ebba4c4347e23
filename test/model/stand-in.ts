import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
import {
  type Capabilities,
  type Driver,
  type Gpus,
  type Instance,
  type NetworkPolicy,
  type Why,
  wholeGpu,
} from '../../services/gateway/drivers/driver.ts';
import { InstanceFailed } from '../../services/gateway/drivers/instance-failed.ts';

/** The requests that a simulated box has received. */
export interface StandIn {
  /** Ids of the executions that it has run, in order. */
  ran: string[];
  /** Executions that were running when their instance was destroyed or frozen, or that were sent to a frozen one. */
  killed: string[];
  /** How often it was told to stop everything that runs. */
  stops: number;
}

/** How the simulated backend behaves; tests may change it at any time. */
interface Script {
  /** The state of new instances. */
  made: Pick<Instance, 'why'> & { state: 'pending' | 'running' };
  /** The host reports nothing about its instances, which keep serving. */
  isSilent: boolean;
  /** Why no instance can be created; undefined when instances can be created. */
  refusal?: Why | undefined;
  /** The memory of the host. */
  memoryMb: number;
  /** CPU time that each instance has used. */
  cpuMs: number;
  /** CPU time that each instance uses between two reads of its usage. */
  busyMs: number;
  usage: 'known' | 'refused' | 'silent';
  /** Whether box servers take files and never respond. */
  losesFiles: boolean;
  /** How many changes of instances fail after they have been applied. */
  failingBinds: number;
  /** The current revision of every image, and the languages of instances that are made from it. */
  revision: string;
  languages: string[];
}

/** The response to every list request. */
const emptyList = { items: [] };

const context = '00000000-0000-4000-8000-000000000000';

/**
 * A driver whose instances are HTTP servers in this process that respond as box servers and record their executions, so that
 * thousands of boxes can live and die within seconds. No code runs; each execution takes `takesMs`.
 */
export const createStandIns = (folder: string, takesMs: () => number, capabilities: Partial<Capabilities> = {}) => {
  const script: Script = {
    made: { state: 'running' },
    isSilent: false,
    memoryMb: 100 * 1024,
    cpuMs: 0,
    busyMs: 0,
    usage: 'known',
    losesFiles: false,
    failingBinds: 0,
    revision: 'stand-in',
    languages: ['python'],
  };
  let passedMs = 0;
  const checkSilence = () => {
    if (script.isSilent) throw new CodeBoxError('unavailable', 'The host does not respond.', { retryAfterSeconds: 5 });
  };
  const instances = new Map<string, { server: Server; instance: Instance; running: Set<string> }>();
  /** Records by instance, kept after its end. */
  const noted = new Map<string, StandIn>();

  /** The network of each instance that was changed. */
  const networks = new Map<string, NetworkPolicy>();
  /** The GPUs of each instance that was created with some. */
  const gpus = new Map<string, Gpus>();
  const frozen = new Set<string>();
  const refused = new Set<string>();
  const seenBy = (instance: string): StandIn => noted.get(instance) ?? { ran: [], killed: [], stops: 0 };

  const run = async (instance: string, running: Set<string>, id: string, response: ServerResponse) => {
    const seen = seenBy(instance);
    seen.ran.push(id);
    if (frozen.has(instance)) seen.killed.push(id);
    running.add(id);
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.write(`${JSON.stringify({ seq: 1, type: 'started', context, language: 'python' })}\n`);
    await sleep(takesMs());
    running.delete(id);
    const done = { seq: 2, type: 'done', status: 'ok', durationMs: 1, stateLost: false };
    response.end(`${JSON.stringify(done)}\n`);
  };

  const handle =
    (instance: string, running: Set<string>, languages: string[]) =>
    async (request: IncomingMessage, response: ServerResponse) => {
      await request.toArray();
      if (script.losesFiles && request.url?.startsWith('/codebox/files/')) return;
      if (request.url === '/codebox/stop') seenBy(instance).stops += 1;
      const id = /^\/codebox\/executions\/([^/?]+)$/.exec(request.url ?? '')?.[1];
      if (id !== undefined && request.method === 'PUT' && !refused.has(id))
        return await run(instance, running, id, response);
      // An execution that never arrived can be refused for good, and stays refused if it arrives later.
      const isRefusal = id !== undefined && request.method === 'DELETE' && !seenBy(instance).ran.includes(id);
      if (isRefusal) refused.add(id);
      const isConflict = id !== undefined && request.method !== 'GET' && !isRefusal;
      response.writeHead(isConflict ? 409 : 200, { 'content-type': 'application/json' });
      const health = { status: 'ok', instance, languages };
      const conflict = { code: 'conflict', detail: 'the execution may have run' };
      response.end(JSON.stringify(request.url === '/codebox/health' ? health : isConflict ? conflict : emptyList));
    };

  const watchers = new Set<(id?: string) => void>();
  const hint = (id?: string) => {
    for (const onChange of watchers) onChange(id);
  };

  const freeze = async (id: string) => {
    frozen.add(id);
    seenBy(id).killed.push(...(instances.get(id)?.running ?? []));
  };
  const thaw = async (id: string) => void frozen.delete(id);

  const driver: Driver = {
    kind: 'local',
    site: 'local',
    place: 'none',
    capabilities: {
      images: true,
      networks: ['none', 'internet'],
      networkObstacles: {},
      disk: { isFullAnError: true },
      limits: { cpus: 'instance', memoryMb: 'instance', diskMb: 'instance', pids: 'instance' },
      bind: { limits: [], networks: [], volumes: false },
      volumesObstacle: 'these boxes have no files',
      freeze: true,
      startsAtOnce: 16,
      warmStartsAtOnce: 8,
      weaknesses: [],
      ...capabilities,
    },
    ping: async () => checkSilence(),
    capacity: async () => ({ memoryMb: script.memoryMb }),
    revision: async () => script.revision,
    gpuObstacle: ({ kind }) => (kind === wholeGpu ? undefined : 'its host has whole GPUs only'),
    async create({ id, gpus: asked }) {
      checkSilence();
      if (script.refusal) throw new InstanceFailed(script.refusal);
      const running = new Set<string>();
      const path = `${folder}/${id}`;
      const server = createServer(handle(id, running, script.languages)).listen(path);
      await once(server, 'listening');
      const { state } = script.made;
      const instance: Instance = { id, ...script.made, ...(state === 'running' && { address: `unix:${path}` }) };
      instances.set(id, { server, instance, running });
      noted.set(id, { ran: [], killed: [], stops: 0 });
      if (asked) gpus.set(id, asked);
      return instance;
    },
    async destroy(id) {
      const known = instances.get(id);
      if (!known) return;
      instances.delete(id);
      noted.get(id)?.killed.push(...known.running);
      known.server.closeAllConnections();
      known.server.close();
      await rm(`${folder}/${id}`, { force: true });
    },
    async list() {
      checkSilence();
      return [...instances.values()].map(({ instance }) => instance);
    },
    async inspect(id) {
      checkSilence();
      return instances.get(id)?.instance;
    },
    ...((capabilities.freeze ?? true) && { freeze, thaw }),
    async bind(id, { network }) {
      if (network !== undefined) networks.set(id, network);
      if (script.failingBinds > 0) {
        script.failingBinds -= 1;
        throw new CodeBoxError('unavailable', 'The host does not respond.');
      }
    },
    watch(onChange) {
      watchers.add(onChange);
      return { [Symbol.dispose]: () => void watchers.delete(onChange) };
    },
    async usage(ids) {
      if (script.usage === 'refused') throw new CodeBoxError('unavailable', 'The host reports no usage.');
      if (script.usage === 'silent') return await new Promise(() => {});
      passedMs += script.busyMs;
      const used = { at: new Date(Date.now() + passedMs), cpuMs: script.cpuMs + passedMs, memoryBytes: 0, pids: 1 };
      return new Map(ids.map((id) => [id, used]));
    },
  };

  /** Ends an instance as its host would, and reports it to watchers. */
  const end = (id: string, why: Why) => {
    const known = instances.get(id);
    if (!known) return;
    known.instance = { id, state: 'ended', why };
    known.server.closeAllConnections();
    known.server.close();
    hint(id);
  };

  return { driver, seenBy, script, networks, gpus, end, hint };
};
