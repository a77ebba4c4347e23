import { WebSocket } from 'ws';
import { z } from 'zod';
import { type ChatTicket, CodeBoxError, type TerminalQuery } from '#contract';
import type { ChatBoxes } from '../box/chat-boxes.ts';
import type { Chats } from './chats.ts';
import type { Owner } from './owner.ts';
import type { Seal } from './seal.ts';

export interface TerminalsOptions {
  chats: Pick<Chats, 'find'>;
  boxes: ChatBoxes;
  seal: Seal;
  gatewayUrl: string;
}

const purpose = 'terminal';
const ticketSchema = z.object({ chat: z.string(), box: z.string(), ticket: z.string() });
const handshakeMs = 30_000;
/** More than the gateway sends in one message. */
const maxMessageBytes = 1024 * 1024;

/** Shells in the boxes of chats. A ticket of ours holds one of the gateway, which is good for one connection within a minute. */
export const createTerminals = ({ chats, boxes, seal, gatewayUrl }: TerminalsOptions) => ({
  async ticket(owner: Owner, id: string): Promise<ChatTicket> {
    const { id: box } = await boxes.open(owner, await chats.find(owner, id));
    const { ticket, expiresAt } = await owner.client.tickets.create(box);
    const sealed = seal.close(purpose, JSON.stringify({ chat: id, box, ticket }));
    return { url: `/v1/chats/${id}/terminal?ticket=${sealed}`, expiresAt };
  },

  /**
   * The gateway's end of a terminal, open. Throws `unauthorized` for a ticket that is used, late, or of another chat, and
   * `too_many_requests` when enough are open.
   */
  async connect(id: string, { ticket = '', ...query }: TerminalQuery): Promise<WebSocket> {
    const text = seal.open(purpose, ticket);
    const opened = text === undefined ? undefined : ticketSchema.parse(JSON.parse(text));
    if (opened?.chat !== id) throw new CodeBoxError('unauthorized', 'The ticket is not one of this chat.');
    const url = new URL(`${gatewayUrl.replace(/\/+$/, '')}/v1/boxes/${opened.box}/terminal`);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    for (const [name, value] of Object.entries({ ...query, ticket: opened.ticket }))
      if (value !== undefined) url.searchParams.set(name, String(value));
    return await open(url);
  },
});

export type Terminals = ReturnType<typeof createTerminals>;

const open = (url: URL): Promise<WebSocket> =>
  new Promise((opened, failed) => {
    const ws = new WebSocket(url, {
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      handshakeTimeout: handshakeMs,
    });
    ws.once('unexpected-response', (request, response) => {
      request.destroy();
      failed(refusalOf(response.statusCode));
    });
    ws.on('error', (cause) => failed(new CodeBoxError('unavailable', 'The gateway cannot be reached.', { cause })));
    ws.once('open', () => {
      // What comes first waits until somebody receives it.
      ws.pause();
      opened(ws);
    });
  });

const refusalOf = (status: number | undefined): CodeBoxError => {
  if (status === 401) return new CodeBoxError('unauthorized', 'The ticket was used, or is too old.');
  if (status === 429)
    return new CodeBoxError('too_many_requests', 'Too many terminals are open.', { retryAfterSeconds: 5 });
  return new CodeBoxError('unavailable', 'The terminal cannot be had.', { cause: status });
};
