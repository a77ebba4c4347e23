import { z } from 'zod';
import { CodeBoxError, chatTicketSchema, terminalQuerySchema } from '#contract';
import { acceptPeer, expectHandshake } from '../../../http/server/handshake.ts';
import { closeCodes, createPeer } from '../../../websockets/peer.ts';
import type { Terminals } from '../../chats/console/terminals.ts';
import type { Endpoints } from '../endpoints.ts';
import { chatParams } from './chats.ts';

const maxMessageBytes = 1024 * 1024;
const tag = 'Terminals';
/** The agent's ticket is longer than one of the gateway, as it contains one. */
const query = terminalQuerySchema.safeExtend({ ticket: z.string().max(1024).optional() });

/** `/v1/chats/{chat}/terminal`: a shell in the box of a chat over a WebSocket. */
export const addTerminalRoutes = ({ add }: Endpoints, terminals: Terminals, stopping: AbortSignal): void => {
  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/tickets',
      summary: 'Create a ticket with which a browser opens the terminal once, within a minute',
      tag,
      params: chatParams,
      responses: { 201: { description: 'The path of the WebSocket.', schema: chatTicketSchema } },
    },
    async ({ c, owner, params }) => c.json(await terminals.ticket(owner, params.chat), 201),
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/terminal',
      summary: 'WebSocket: open a new terminal or a running one, as at the gateway',
      tag,
      isPublic: true,
      params: chatParams,
      query,
      responses: { 101: { description: "The frames are those of the gateway's terminals." } },
    },
    async ({ c, params, query }) => {
      expectHandshake(c);
      const origin = c.req.header('origin');
      if (origin !== undefined && !origin.endsWith(`//${c.req.header('host')}`))
        throw new CodeBoxError('forbidden', 'Another site sent this request.');
      const { gateway, caller } = await terminals.connect(params.chat, query);
      c.set('ticketOf', caller);
      try {
        return acceptPeer(c, { maxMessageBytes }, (client) => {
          const box = createPeer(gateway);
          box.receive((data, isBinary) => client.send(isBinary ? data : data.toString()));
          client.receive((data, isBinary) => box.send(isBinary ? data : data.toString()));
          gateway.once('close', (code, reason) => client.close(sendable(code), String(reason)));
          client.closed.addEventListener('abort', () => box.close(closeCodes.normal, ''), { once: true });
          const leave = () => client.close(closeCodes.restart, 'The agent is stopping; connect again.');
          stopping.addEventListener('abort', leave, { once: true });
          client.closed.addEventListener('abort', () => stopping.removeEventListener('abort', leave), { once: true });
        });
      } catch (error) {
        gateway.terminate();
        throw error;
      }
    },
  );
};

/** Reserved close codes, which mean that a connection broke, must not be sent. */
const sendable = (code: number): number => (code === 1005 || code === 1006 || code === 1015 ? closeCodes.later : code);
