import { createInterface } from 'node:readline';

// The Model Context Protocol over stdio, for clients that start their servers: each line of stdin is a message, which is sent to a
// gateway, and what the gateway sends becomes lines of stdout.

interface Message {
  id?: string | number;
  method?: string;
  params?: { name?: string; uri?: string; requestId?: string | number; _meta?: Record<string, unknown> };
}

const endMs = 5000;
const address = `${(process.env.CODEBOX_URL ?? 'http://localhost:8080').replace(/\/$/, '')}/mcp`;
const optional = { 'X-CodeBox-User': process.env.CODEBOX_USER, 'X-CodeBox-Template': process.env.CODEBOX_TEMPLATE };

/** The id of the session and its protocol version, once the client has begun one. */
const session: Record<string, string> = {};
/** Requests without a response yet. */
const open = new Map<string | number, AbortController>();

const write = (message: unknown): void => {
  process.stdout.write(`${JSON.stringify(message)}\n`);
};

/** The headers that repeat what a message says since the protocol version 2026-07-28. */
const describe = ({ method, params }: Message): Record<string, string> => {
  const version = params?._meta?.['io.modelcontextprotocol/protocolVersion'];
  if (typeof version !== 'string') return session;
  const name = params?.name ?? params?.uri;
  const isPlain = name === undefined || /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(name);
  const shown = isPlain ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`;
  return {
    'MCP-Protocol-Version': version,
    ...(method !== undefined && { 'Mcp-Method': method }),
    ...(shown !== undefined && { 'Mcp-Name': shown }),
  };
};

const send = (
  method: string,
  headers: Record<string, string>,
  signal: AbortSignal,
  body?: string,
): Promise<Response> => {
  const given = Object.entries(optional).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const key = { Authorization: `Bearer ${process.env.CODEBOX_API_KEY ?? ''}` };
  const types = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  return fetch(address, {
    method,
    headers: { ...key, ...types, ...Object.fromEntries(given), ...headers },
    signal,
    ...(body !== undefined && { body }),
  });
};

/** Yields the messages of a response: one, or those of a stream, in which some events have only an id. */
async function* read(response: Response): AsyncGenerator<Record<string, unknown>> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const text = await response.text();
    if (text !== '') yield JSON.parse(text);
    return;
  }
  let rest = '';
  for await (const text of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: {')) yield JSON.parse(line.slice('data: '.length));
  }
}

/** Stores the session and the protocol version from the response to `initialize`. */
const beginSession = (response: Response, { result }: Record<string, unknown>): void => {
  const id = response.headers.get('mcp-session-id');
  if (id === null) return;
  session['Mcp-Session-Id'] = id;
  session['MCP-Protocol-Version'] = String((result as { protocolVersion?: unknown })?.protocolVersion);
};

const forward = async (line: string): Promise<void> => {
  const message = JSON.parse(line) as Message;
  const { id, method, params } = message;
  const isRequest = method !== undefined && id !== undefined;
  const leave = new AbortController();
  if (isRequest) open.set(id, leave);
  // With a session the gateway cancels the call on request; without one, it does so when the client leaves.
  if (method === 'notifications/cancelled' && session['Mcp-Session-Id'] === undefined) {
    open.get(params?.requestId ?? '')?.abort();
    return;
  }
  try {
    const response = await send('POST', describe(message), leave.signal, line);
    for await (const part of read(response)) {
      if (method === 'initialize' && part.id === id) beginSession(response, part);
      // The gateway refuses a whole request without its id.
      if (part.id !== null) write(part);
      else if (isRequest) write({ ...part, id });
    }
  } catch (error) {
    if (leave.signal.aborted) return;
    const text = `The gateway at ${address} does not respond: ${error instanceof Error ? error.message : error}`;
    process.stderr.write(`${text}\n`);
    if (isRequest) write({ jsonrpc: '2.0', id, error: { code: -32_000, message: text } });
  } finally {
    if (isRequest) open.delete(id);
  }
};

/** Ends the session, which deletes its box. */
const end = async (): Promise<never> => {
  for (const leave of open.values()) leave.abort();
  if (session['Mcp-Session-Id'] !== undefined)
    await send('DELETE', session, AbortSignal.timeout(endMs)).catch((error) => process.stderr.write(`${error}\n`));
  process.exit();
};

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end);
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  forward(line).catch((error) => process.stderr.write(`A line of stdin is no message: ${error}\n`));
}
await end();
