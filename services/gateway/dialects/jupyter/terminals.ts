import { z } from 'zod';
import { CodeBoxError, terminalControlSchema, terminalNewsSchema } from '#contract';
import { readFrame } from '../../../http/bodies/frame.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { AttachedTerminal } from '../../boxes/reach/terminals.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Places } from './places.ts';

const described = { scope: 'run', tag: 'Jupyter', query: z.looseObject({}), responses: {} } as const;
const maxMessageBytes = 1024 * 1024;

/** A message of the client: its kind and its values, such as `["stdin", "ls\r"]` or `["set_size", 24, 80]`. */
const clientSchema = z.union([
  z.tuple([z.literal('stdin'), z.string()]),
  z.tuple([z.literal('set_size'), z.number(), z.number()]).rest(z.unknown()),
]);

/** Relays messages between a shell and its client in the format of Jupyter: JSON arrays, with text instead of bytes. */
const bridge = (client: Peer, { peer: box }: AttachedTerminal): void => {
  const decoder = new TextDecoder();
  const send = (...message: unknown[]) => client.send(JSON.stringify(message));
  send('setup', {});
  box.receive((data, isBinary) => {
    if (isBinary) return send('stdout', decoder.decode(data, { stream: true }));
    const frame = readFrame(terminalNewsSchema, data);
    if (!('value' in frame) || frame.value.type !== 'exit') return undefined;
    return Promise.resolve(send('disconnect', 1)).then(() => client.close(closeCodes.normal, 'The shell has ended.'));
  });
  client.receive((data, isBinary) => {
    const frame = isBinary ? undefined : readFrame(clientSchema, data);
    if (!frame || !('value' in frame)) {
      client.tolerate();
      return undefined;
    }
    const [kind, first, cols] = frame.value;
    if (kind === 'stdin') return box.send(Buffer.from(first));
    const size = terminalControlSchema.safeParse({ type: 'resize', rows: first, cols });
    return size.success ? box.send(JSON.stringify(size.data)) : undefined;
  });
  client.closed.addEventListener('abort', () => box.close(closeCodes.normal, ''), { once: true });
  const lost = () => client.close(closeCodes.later, 'The terminal is not there.');
  if (box.closed.aborted) lost();
  else box.closed.addEventListener('abort', lost, { once: true });
};

/** `/jupyter/{name}/api/terminals`: shells. */
export const addTerminalRoutes = ({ add }: Endpoints, parts: RouteParts, places: Places): void => {
  const { terminals, webSockets } = parts;
  const list = '/jupyter/{name}/api/terminals';
  const one = `${list}/{terminal}`;
  const toModel = ({ id, createdAt }: { id: string; createdAt: string }) => ({ name: id, last_activity: createdAt });

  add({ ...described, method: 'get', path: list, summary: 'List the terminals' }, async ({ c, tenant }) =>
    c.json((await terminals.list(await places.boxOf(c, tenant))).map(toModel)),
  );

  add(
    {
      ...described,
      method: 'post',
      path: list,
      summary: 'Start a terminal',
      body: z.looseObject({ cwd: z.string().max(4096).nullish() }),
    },
    async ({ c, tenant, body: { cwd } }) => {
      const { id, peer } = await terminals.attach(await places.boxOf(c, tenant), cwd ? { cwd } : {});
      peer.close(closeCodes.normal, '');
      return c.json(toModel({ id, createdAt: new Date().toISOString() }));
    },
  );

  add({ ...described, method: 'get', path: one, summary: 'Read a terminal' }, async ({ c, tenant }) => {
    const found = await terminals.list(await places.boxOf(c, tenant));
    const terminal = found.find(({ id }) => id === c.req.param('terminal'));
    if (!terminal) throw new CodeBoxError('not_found', 'There is no such terminal.');
    return c.json(toModel(terminal));
  });

  add({ ...described, method: 'delete', path: one, summary: 'End a terminal' }, async ({ c, tenant }) => {
    await terminals.end(await places.boxOf(c, tenant), c.req.param('terminal') ?? '');
    return c.body(null, 204);
  });

  add(
    {
      ...described,
      method: 'get',
      path: '/jupyter/{name}/terminals/websocket/{terminal}',
      summary: 'WebSocket: a terminal',
    },
    async ({ c, tenant }) => {
      webSockets.expect(c);
      const attached = await terminals.attach(await places.boxOf(c, tenant), { terminal: c.req.param('terminal') });
      try {
        return webSockets.accept(c, { maxMessageBytes }, (client) => bridge(client, attached));
      } catch (error) {
        await attached.abandon();
        throw error;
      }
    },
  );
};
