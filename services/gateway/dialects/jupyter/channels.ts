import { z } from 'zod';
import { codeSchema } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import { longJson } from '../../../json/json-bounds.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { binaryProtocol, type ClientMessage, decodeClient, encode, type ServerMessage, toMessage } from './messages.ts';
import type { KernelPlace, Places } from './places.ts';
import { createRelay } from './relay.ts';
import type { Session } from './session.ts';
import { createSessions } from './sessions.ts';

const maxMessageBytes = longJson.bytes;

const executeSchema = z.object({
  code: codeSchema,
  silent: z.boolean().nullish(),
  store_history: z.boolean().nullish(),
  allow_stdin: z.boolean().nullish(),
  stop_on_error: z.boolean().nullish(),
  user_expressions: z.record(z.string().max(1000), z.string().max(65_536)).nullish(),
});
const inputSchema = z.object({ value: z.string().max(1_048_576) });

interface Channel {
  peer: Peer;
  session: Session;
  place: KernelPlace;
  /** Counts a message as a request; throws when the tenant has no request left. */
  count: () => Promise<void>;
  send: (message: ServerMessage) => Promise<void> | undefined;
}

/** `/jupyter/{name}/api/kernels/{kernel}/channels`: the messages of a kernel over a WebSocket. */
export const addChannelRoute = ({ add }: Endpoints, parts: RouteParts, places: Places): void => {
  const { access, contexts, directory, jupyter, webSockets } = parts;
  const sessions = createSessions(parts);

  const serve = ({ peer, session, place: { ref, kernel }, count, send }: Channel) => {
    const relay = createRelay({
      open: () => jupyter.channels(ref, kernel.id),
      send,
      onError: (message, error) =>
        fail(message, error).catch(() => peer.close(closeCodes.failed, 'Something went wrong inside the service.')),
      onLost: () => peer.close(closeCodes.later, 'The kernel has closed its channels; connect again.'),
      closed: peer.closed,
    });

    /** Responds to a request itself. */
    const reply = async ({ channel, header }: ClientMessage, content: object) => {
      const type = header.msg_type.replace(/_request$/, '_reply');
      const state = (execution_state: string) =>
        toMessage(header, { channel: 'iopub', type: 'status', content: { execution_state } });
      await send(state('busy'));
      await send(toMessage(header, { channel, type, content }));
      await send(state('idle'));
    };

    const fail = async (message: ClientMessage, thrown: unknown): Promise<void> => {
      const error = asCodeBoxError(thrown);
      if (error.code === 'internal') throw thrown;
      if (error.code === 'unauthorized') return peer.close(closeCodes.refused, 'The key is no longer valid.');
      await reply(message, { status: 'error', ename: error.code, evalue: error.message, traceback: [error.message] });
    };

    const execute = (message: ClientMessage) => {
      const { code, ...ask } = checkInput(executeSchema, message.content, '/content');
      const isSilent = ask.silent ?? false;
      session.submit({
        header: message.header,
        code,
        isSilent,
        storesHistory: !isSilent && (ask.store_history ?? true),
        allowsInput: ask.allow_stdin ?? false,
        stopsOnError: ask.stop_on_error ?? true,
        expressions: ask.user_expressions ?? {},
        after: relay.sent(),
        keep: peer.keep,
      });
    };

    const handle = async (message: ClientMessage, bytes: number): Promise<void> => {
      const { header, content } = message;
      const type = header.msg_type;
      if (!type.startsWith('comm_')) await count();
      if (type === 'execute_request') return execute(message);
      if (type === 'input_reply') {
        const { value } = checkInput(inputSchema, content, '/content');
        if (await session.input(value)) return;
      }
      if (type === 'interrupt_request') {
        await contexts.interrupt(ref, kernel.id);
        return await reply(message, { status: 'ok' });
      }
      if (type === 'shutdown_request') {
        if (content.restart === true) await contexts.restart(ref, kernel.id);
        else await contexts.delete(ref, kernel.id);
        return await reply(message, { status: 'ok', restart: content.restart === true });
      }
      await relay.forward(message, bytes, peer.keep);
    };

    return async (message: ClientMessage, bytes: number): Promise<void> => {
      try {
        await handle(message, bytes);
      } catch (thrown) {
        await fail(message, thrown);
      }
    };
  };

  add(
    {
      method: 'get',
      path: '/jupyter/{name}/api/kernels/{kernel}/channels',
      scope: 'run',
      summary: 'WebSocket: the messages of a kernel',
      tag: 'Jupyter',
      query: z.looseObject({ session_id: z.string().max(200).optional() }),
      responses: {},
    },
    async ({ c, tenant, query }) => {
      webSockets.expect(c);
      const place = await places.kernelOf(c, tenant);
      const { ref, kernel } = place;
      const offered = c.req.header('sec-websocket-protocol')?.split(/\s*,\s*/) ?? [];
      const protocol = offered.find((name) => name === binaryProtocol);
      const release = await access.hold(ref);
      const log = c.get('log');
      try {
        const check = async () => {
          const ended = await directory.endedError(ref);
          if (ended) throw ended;
        };
        return webSockets.accept(c, { maxMessageBytes, check, protocol }, (peer) => {
          peer.closed.addEventListener('abort', release, { once: true });
          // Clients take messages of another session for those of an earlier process, and drop them when they have to wait.
          const send = (message: ServerMessage) =>
            peer.send(encode({ ...message, header: { ...message.header, session: kernel.id } }, protocol));
          const named = { ref, kernel: kernel.id, session: query.session_id || undefined };
          const session = sessions.connect(named, { peer, send }, log);
          const handle = serve({ peer, session, place, send, count: () => webSockets.countMessage(c) });
          peer.receive((data, isBinary) => {
            const message = decodeClient(data, isBinary, protocol ?? '');
            if (message) return handle(message, data.length);
            peer.tolerate();
            return undefined;
          });
        });
      } catch (error) {
        release();
        throw error;
      }
    },
  );
};
