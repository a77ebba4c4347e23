import { WebSocket } from 'ws';
import { z } from 'zod';
import { type ChatTicket, CodeBoxError, type TerminalQuery } from '#contract';
import type { Vault } from '../../../vault/vault.ts';
import type { ChatBoxes } from '../../box/chat-boxes.ts';
import type { Chats } from '../chats.ts';
import { countedName, type Owner } from '../owner.ts';

export interface TerminalsOptions {
  chats: Pick<Chats, 'find'>;
  boxes: ChatBoxes;
  seal: Vault;
  gatewayUrl: string;
}

const purpose = 'terminal';
const ticketSchema = z.object({
  chat: z.string(),
  box: z.string(),
  ticket: z.string(),
  caller: z.string().default(''),
});
const handshakeMs = 30_000;
/** Larger than any message of the gateway. */
const maxMessageBytes = 1024 * 1024;

/**
 * Shells in the boxes of chats. The agent's ticket contains one of the gateway, which is valid for one connection
 * within a minute.
 */
export const createTerminals = ({ chats, boxes, seal, gatewayUrl }: TerminalsOptions) => ({
  async ticket(owner: Owner, id: string): Promise<ChatTicket> {
    const { id: box } = await boxes.open(owner, await chats.find(owner, id));
    const { ticket, expiresAt } = await owner.client.tickets.create(box);
    const sealed = seal.close(purpose, JSON.stringify({ chat: id, box, ticket, caller: countedName(owner) }));
    return { url: `/v1/chats/${id}/terminal?ticket=${sealed}`, expiresAt };
  },

  /**
   * Opens the gateway's side of a terminal; resolves with it and the counted name of the one who got the ticket. Throws `unauthorized` for a ticket that was used, has expired or belongs to
   * another chat, and `too_many_requests` when too many terminals are open.
   */
  async connect(id: string, { ticket = '', ...query }: TerminalQuery): Promise<{ gateway: WebSocket; caller: string }> {
    const text = seal.open(purpose, ticket);
    const opened = text === undefined ? undefined : ticketSchema.parse(JSON.parse(text));
    if (opened?.chat !== id) throw new CodeBoxError('unauthorized', 'The ticket does not belong to this chat.');
    const url = new URL(`${gatewayUrl.replace(/\/+$/, '')}/v1/boxes/${opened.box}/terminal`);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    for (const [name, value] of Object.entries({ ...query, ticket: opened.ticket }))
      if (value !== undefined) url.searchParams.set(name, String(value));
    return { gateway: await open(url), caller: opened.caller };
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
      // Data that arrives early waits until somebody receives it.
      ws.pause();
      opened(ws);
    });
  });

const refusalOf = (status: number | undefined): CodeBoxError => {
  if (status === 401) return new CodeBoxError('unauthorized', 'The ticket was used already, or has expired.');
  if (status === 429)
    return new CodeBoxError('too_many_requests', 'Too many terminals are open.', { retryAfterSeconds: 5 });
  return new CodeBoxError('unavailable', 'The terminal is not available.', { cause: status });
};
