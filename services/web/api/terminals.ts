import { chatTicketSchema, openSocket, pathOf, type Socket, type Transport } from '#contract';

export interface TerminalRequest {
  /** A running terminal to attach to; null starts a new one. */
  terminal: string | null;
  cols: number;
  rows: number;
  signal: AbortSignal;
}

/** Shells in the box of a chat. */
export const createTerminals = (transport: Transport) => ({
  async open(chat: string, { terminal, cols, rows, signal }: TerminalRequest): Promise<Socket> {
    const ticket = await transport.json(chatTicketSchema, {
      method: 'POST',
      path: pathOf('chats', chat, 'tickets'),
      deadlineSeconds: 300,
      options: { signal },
    });
    const url = new URL(ticket.url, location.href);
    url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    url.searchParams.set('cols', String(cols));
    url.searchParams.set('rows', String(rows));
    if (terminal !== null) url.searchParams.set('terminal', terminal);
    return await openSocket(url.href, WebSocket, { signal });
  },
});
