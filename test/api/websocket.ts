import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import type { Problem } from '#contract';
import type { RunningGateway } from './harness.ts';

export interface Refusal {
  status: number;
  type: string | undefined;
  problem: Problem;
}

/** A received message: a text frame as parsed JSON, a binary one as bytes. */
type Message = { json: Record<string, unknown> } | { bytes: Buffer };

export interface TestSocket {
  ws: WebSocket;
  /** All messages received so far. */
  messages: Message[];
  sendJson: (value: unknown) => void;
  sendBytes: (text: string | Buffer) => void;
  /** Resolves with the first JSON message that fits. */
  json: (fits: (value: Record<string, unknown>) => boolean, deadlineMs?: number) => Promise<Record<string, unknown>>;
  /** Waits until the received bytes contain the text, and resolves with all of them as text. */
  text: (part: string | RegExp, deadlineMs?: number) => Promise<string>;
  bytes: () => Buffer;
  closed: Promise<{ code: number; reason: string }>;
}

const toUrl = (gateway: RunningGateway, path: string) => `${gateway.url.replace('http', 'ws')}${path}`;

/** Connects to a path of the gateway, with its key unless other headers are given; rejects with the refusal. */
export const connect = async (
  gateway: RunningGateway,
  path: string,
  headers: Record<string, string> = { authorization: `Bearer ${gateway.key}` },
): Promise<TestSocket> => {
  const ws = new WebSocket(toUrl(gateway, path), { headers });
  const messages: Message[] = [];
  const changed = new EventTarget();
  ws.on('message', (data: Buffer, isBinary) => {
    messages.push(isBinary ? { bytes: data } : { json: JSON.parse(data.toString()) });
    changed.dispatchEvent(new Event('change'));
  });
  const closed = new Promise<{ code: number; reason: string }>((done) => {
    ws.on('close', (code, reason) => {
      done({ code, reason: reason.toString() });
      changed.dispatchEvent(new Event('change'));
    });
  });
  const refused = once(ws, 'unexpected-response').then(async ([, response]: IncomingMessage[]) => {
    const chunks: Buffer[] = [];
    for await (const chunk of response ?? []) chunks.push(chunk as Buffer);
    const refusal: Refusal = {
      status: response?.statusCode ?? 0,
      type: response?.headers['content-type'],
      problem: JSON.parse(Buffer.concat(chunks).toString()),
    };
    throw refusal;
  });
  refused.catch(() => {});
  await Promise.race([once(ws, 'open'), refused]);
  ws.on('error', () => {});

  const until = async <T>(find: () => T | undefined, what: string, deadlineMs = 60_000): Promise<T> => {
    const deadline = AbortSignal.timeout(deadlineMs);
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (deadline.aborted || ws.readyState >= WebSocket.CLOSING)
        throw new Error(`${what} did not arrive; received ${JSON.stringify(messages).slice(-2000)} ${bytes()}`);
      await once(changed, 'change', { signal: deadline }).catch(() => {});
    }
  };
  const bytes = () => Buffer.concat(messages.flatMap((message) => ('bytes' in message ? [message.bytes] : [])));

  return {
    ws,
    messages,
    closed,
    bytes,
    sendJson: (value) => ws.send(JSON.stringify(value)),
    sendBytes: (text) => ws.send(Buffer.from(text)),
    json: (fits, deadlineMs) =>
      until(
        () => messages.flatMap((message) => ('json' in message ? [message.json] : [])).find(fits),
        'the message',
        deadlineMs,
      ),
    text: (part, deadlineMs) =>
      until(
        () => {
          const text = bytes().toString();
          return (typeof part === 'string' ? text.includes(part) : part.test(text)) ? text : undefined;
        },
        String(part),
        deadlineMs,
      ),
  };
};

/** Resolves with the response that refuses a connection; throws if it is not refused. */
export const refusalOf = async (
  gateway: RunningGateway,
  path: string,
  headers?: Record<string, string>,
): Promise<Refusal> => {
  try {
    const socket = await connect(gateway, path, headers);
    socket.ws.terminate();
  } catch (error) {
    return error as Refusal;
  }
  throw new Error(`${path} was not refused`);
};
