import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
import type { Capabilities, Driver, Instance, Why } from '../../services/gateway/drivers/driver.ts';

/** What a box that is not one has been asked. */
export interface StandIn {
  /** Ids of the code that it was sent, in order. */
  ran: string[];
  /** Code that was running when its instance was destroyed or frozen, or that was sent to a frozen one. */
  killed: string[];
}

/** What the backend of the instances does from now on; to be changed at any time. */
interface Script {
  /** What becomes of an instance that is asked for. */
  made: Pick<Instance, 'why'> & { state: 'pending' | 'running' };
  /** Nobody can say what is with the instances: they serve on all the same. */
  isSilent: boolean;
  usage: 'known' | 'refused' | 'silent';
}

/** To questions for what there is and for what was done. */
const answers = { items: [] };

const context = '00000000-0000-4000-8000-000000000000';

/**
 * A driver whose instances are HTTP servers of this process that answer as a box server does, and note what they run: so that
 * thousands of boxes can live and die within seconds. Nothing is run, each piece of code takes `takesMs`.
 */
export const createStandIns = (folder: string, takesMs: () => number, capabilities: Partial<Capabilities> = {}) => {
  const script: Script = { made: { state: 'running' }, isSilent: false, usage: 'known' };
  const checkSilence = () => {
    if (script.isSilent) throw new CodeBoxError('unavailable', 'The host does not answer.', { retryAfterSeconds: 5 });
  };
  const instances = new Map<string, { server: Server; instance: Instance; running: Set<string> }>();
  /** Kept after their end. */
  const noted = new Map<string, StandIn>();

  const frozen = new Set<string>();
  const refused = new Set<string>();
  const seenBy = (instance: string): StandIn => noted.get(instance) ?? { ran: [], killed: [] };

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

  const answer =
    (instance: string, running: Set<string>) => async (request: IncomingMessage, response: ServerResponse) => {
      await request.toArray();
      const id = /^\/codebox\/executions\/([^/?]+)$/.exec(request.url ?? '')?.[1];
      if (id !== undefined && request.method === 'PUT' && !refused.has(id))
        return await run(instance, running, id, response);
      // What was never sent can be refused for good, and is then, whenever it comes.
      const isRefusal = id !== undefined && request.method === 'DELETE' && !seenBy(instance).ran.includes(id);
      if (isRefusal) refused.add(id);
      const isConflict = id !== undefined && request.method !== 'GET' && !isRefusal;
      response.writeHead(isConflict ? 409 : 200, { 'content-type': 'application/json' });
      const health = { status: 'ok', instance, languages: ['python'] };
      const conflict = { code: 'conflict', detail: 'the execution may have run' };
      response.end(JSON.stringify(request.url === '/codebox/health' ? health : isConflict ? conflict : answers));
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
      bind: { limits: [], networks: [] },
      freeze: true,
      startsAtOnce: 16,
      weaknesses: [],
      ...capabilities,
    },
    ping: async () => checkSilence(),
    capacity: async () => undefined,
    revision: async () => 'stand-in',
    async create({ id }) {
      checkSilence();
      const running = new Set<string>();
      const path = `${folder}/${id}`;
      const server = createServer(answer(id, running)).listen(path);
      await once(server, 'listening');
      const { state } = script.made;
      const instance: Instance = { id, ...script.made, ...(state === 'running' && { address: `unix:${path}` }) };
      instances.set(id, { server, instance, running });
      noted.set(id, { ran: [], killed: [] });
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
    bind: async () => {},
    watch(onChange) {
      watchers.add(onChange);
      return { [Symbol.dispose]: () => void watchers.delete(onChange) };
    },
    async usage(ids) {
      if (script.usage === 'refused') throw new CodeBoxError('unavailable', 'The host does not say.');
      if (script.usage === 'silent') return await new Promise(() => {});
      return new Map(ids.map((id) => [id, { at: new Date(), cpuMs: 0, memoryBytes: 0, pids: 1 }]));
    },
  };

  /** Ends an instance as its host does, and says so. */
  const end = (id: string, why: Why) => {
    const known = instances.get(id);
    if (!known) return;
    known.instance = { id, state: 'ended', why };
    known.server.closeAllConnections();
    known.server.close();
    hint(id);
  };

  return { driver, seenBy, script, end, hint };
};
