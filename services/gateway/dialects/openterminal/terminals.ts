import { z } from 'zod';
import { CodeBoxError, hasCode, plainText, terminalControlSchema, terminalNewsSchema } from '#contract';
import { readFrame } from '../../../http/bodies/frame.ts';
import { bearerKey } from '../../../http/endpoints/given-key.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { AttachedTerminal } from '../../boxes/reach/terminals.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Handle } from '../../http/sockets/strangers.ts';
import type { Homes } from './homes.ts';
import type { Tools } from './tools.ts';

const described = { scope: 'run', tag: 'Open Terminal', responses: {} } as const;
const list = '/openterminal/api/terminals';
const one = `${list}/{terminal}`;
const params = z.object({ terminal: z.string().max(64) });
const maxMessageBytes = 1024 * 1024;
/** How much of its latest output a model gets, and how long that may take. */
const maxOutputBytes = 65_536;
const replayMs = 5000;
/** The close codes of Open Terminal. */
const codes = { refused: 4001, gone: 4004, taken: 4009 };
const authSchema = z.object({ type: z.literal('auth'), token: plainText().max(4096) });

const noTerminal = () => new CodeBoxError('not_found', 'Session not found');

/** Passes bytes in both directions, and the size of the screen to the shell. Returns what handles the messages of the client. */
const bridge = (client: Peer, { peer: box }: AttachedTerminal): Handle => {
  box.receive((data, isBinary) => {
    if (isBinary) return client.send(data);
    const frame = readFrame(terminalNewsSchema, data);
    if ('value' in frame && frame.value.type === 'exit') client.close(closeCodes.normal, 'The shell has ended.');
    return undefined;
  });
  const lost = () => client.close(closeCodes.normal, 'The terminal is not there any more.');
  if (box.closed.aborted) lost();
  else box.closed.addEventListener('abort', lost, { once: true });
  return (data, isBinary) => {
    if (isBinary) return box.send(data);
    const frame = readFrame(terminalControlSchema, data);
    if ('value' in frame) return box.send(JSON.stringify(frame.value));
    client.tolerate();
    return undefined;
  };
};

/** Resolves with the latest output of a terminal, which is replayed to each new client. */
const readOutput = async ({ peer }: AttachedTerminal): Promise<string> => {
  const whole = Promise.withResolvers<void>();
  const chunks: Buffer[] = [];
  let missing = 0;
  peer.receive((data, isBinary) => {
    const frame = isBinary ? undefined : readFrame(terminalNewsSchema, data);
    if (frame && 'value' in frame && frame.value.type === 'ready') missing = frame.value.replayedBytes;
    if (isBinary) {
      chunks.push(data);
      missing -= data.length;
    }
    if (missing <= 0) whole.resolve();
    return undefined;
  });
  peer.closed.addEventListener('abort', () => whole.resolve(), { once: true });
  const late = setTimeout(whole.resolve, replayMs);
  await whole.promise;
  clearTimeout(late);
  peer.close(closeCodes.normal, '');
  return Buffer.concat(chunks).subarray(-maxOutputBytes).toString();
};

/** `/api/terminals`: shells, each for one client, with which it ends. Models may read and use that of their user. */
export const addTerminalRoutes = ({ add }: Endpoints, tools: Tools, parts: RouteParts, homes: Homes): void => {
  const { terminals, webSockets } = parts;
  const toModel = ({ id, createdAt, pid }: { id: string; createdAt: string; pid: number | undefined }) => ({
    id,
    created_at: createdAt,
    pid,
  });

  const find = async (ref: BoxRef, id: string) => {
    const terminal = (await terminals.list(ref)).find((each) => each.id === id);
    if (!terminal) throw noTerminal();
    return terminal;
  };

  /** Returns the newest terminal that a client is attached to. */
  const findUsed = async (ref: BoxRef | undefined) => {
    const used = (ref ? await terminals.list(ref) : []).findLast(({ clients }) => clients > 0);
    if (!ref || !used) throw new CodeBoxError('not_found', 'No connected user shell');
    return { ref, terminal: used.id };
  };

  // Before the routes with an id in this place.
  tools.add(
    {
      name: 'read_user_terminal',
      method: 'get',
      path: `${list}/user/output`,
      scope: 'run',
      summary: 'Read the terminal of the user',
      description:
        'Returns the latest output of the terminal that the user has open, in which a program may be running.',
    },
    async ({ c, tenant }) => {
      const { ref, terminal } = await findUsed(await homes.lookUp(c, tenant));
      return c.json({ output: await readOutput(await terminals.attach(ref, { terminal })) });
    },
  );

  tools.add(
    {
      name: 'send_user_terminal_input',
      method: 'post',
      path: `${list}/user/input`,
      scope: 'run',
      summary: 'Type into the terminal of the user',
      description:
        'Types text into the terminal that the user has open; a line break submits it. Read the terminal first.',
      body: z.object({ input: z.string().max(65_536).meta({ description: 'The text, with its line breaks.' }) }),
    },
    async ({ c, tenant, body: { input } }) => {
      const { ref, terminal } = await findUsed(await homes.lookUp(c, tenant));
      await terminals.write(ref, terminal, Buffer.from(input));
      return c.json({ status: 'ok' });
    },
  );

  add({ ...described, method: 'post', path: list, summary: 'Start a terminal' }, async ({ c, tenant }) => {
    const { id, pid, peer } = await terminals.attach(await homes.of(c, tenant), {});
    peer.close(closeCodes.normal, '');
    return c.json(toModel({ id, pid, createdAt: new Date().toISOString() }));
  });

  add({ ...described, method: 'get', path: list, summary: 'List the terminals' }, async ({ c, tenant }) => {
    const ref = await homes.lookUp(c, tenant);
    return c.json(ref ? (await terminals.list(ref)).map(toModel) : []);
  });

  add(
    { ...described, method: 'delete', path: one, summary: 'End a terminal', params },
    async ({ c, tenant, params: { terminal } }) => {
      const ref = await homes.find(c, tenant);
      await find(ref, terminal);
      await terminals.end(ref, terminal);
      return c.json({ status: 'deleted' });
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: one,
      // The first message of a WebSocket has its key.
      scope: 'public',
      summary: 'Read a terminal, or use it by WebSocket',
      params,
      query: z.looseObject({}),
    },
    async ({ c, params: { terminal } }) => {
      if (!c.env?.upgrade) {
        await webSockets.strangers.admit(c, bearerKey(c), 'run');
        return c.json(toModel(await find(await homes.find(c, c.get('tenant')), terminal)));
      }
      return webSockets.strangers.accept(c, {
        maxMessageBytes,
        scope: 'run',
        keyOf: (data, isBinary) => {
          const frame = isBinary ? undefined : readFrame(authSchema, data);
          return frame && 'value' in frame ? frame.value.token : undefined;
        },
        async serve(client) {
          const ref = await homes.find(c, c.get('tenant'));
          if ((await find(ref, terminal)).clients > 0) throw new CodeBoxError('conflict', 'Session already connected');
          const attached = await terminals.attach(ref, { terminal });
          const leave = () => {
            attached.peer.close(closeCodes.normal, '');
            terminals.end(ref, terminal).catch((err: unknown) => {
              if (!hasCode(err, 'not_found')) c.get('log').info({ err }, 'could not end a terminal');
            });
          };
          client.closed.addEventListener('abort', leave, { once: true });
          return bridge(client, attached);
        },
        refuse(client, error) {
          const code = { unauthorized: codes.refused, not_found: codes.gone, gone: codes.gone, conflict: codes.taken };
          client.close(code[error.code as keyof typeof code] ?? closeCodes.later, error.message);
        },
      });
    },
  );
};
