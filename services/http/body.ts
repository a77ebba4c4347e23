import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { HttpEnv } from './env.ts';

const maxJsonBytes = 10 * 1024 * 1024;
const readDeadlineMs = 30_000;

/**
 * Reads a JSON body whole: at most 10 MiB, within 30 s, valid UTF-8. The Content-Type is not asked for, so that
 * `curl -d '{…}'` works as it is. Answers the value and the bytes; an empty body is `{}`.
 * Throws `timeout` when it is late, `too_large`, and `invalid_request` for one that breaks off or is not JSON.
 */
export const readJsonBody = async <E extends HttpEnv>(
  c: Context<E>,
): Promise<{ value: unknown; bytes: Uint8Array }> => {
  const bytes = await readBytes(c);
  if (bytes.length === 0) return { value: {}, bytes };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw invalid('is not valid UTF-8', cause);
  }
  try {
    return { value: JSON.parse(text), bytes };
  } catch (cause) {
    throw invalid('is not valid JSON', cause);
  }
};

const readBytes = async <E extends HttpEnv>(c: Context<E>): Promise<Uint8Array> => {
  if (Number(c.req.header('content-length') ?? 0) > maxJsonBytes) throw tooLarge();
  // The socket's own stream where there is one: a web stream around it costs as much as all the rest of a small request.
  const incoming = c.env?.incoming;
  // Left open when the reading is given up, so that the answer can still be sent.
  const stream: AsyncIterable<Uint8Array> | null = incoming?.iterator({ destroyOnReturn: false }) ?? c.req.raw.body;
  if (!stream) return new Uint8Array();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, giveUp) => {
    timer = setTimeout(() => giveUp(new CodeBoxError('timeout', 'The body did not come in time.')), readDeadlineMs);
  });
  try {
    const bytes = await Promise.race([collect(stream), late]);
    if (incoming && !incoming.complete) throw invalid('is not whole', undefined);
    return bytes;
  } catch (error) {
    // What still comes of it must not be taken for the next request.
    c.header('Connection', 'close');
    throw error;
  } finally {
    clearTimeout(timer);
  }
};

const collect = async (stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of stream) {
      size += chunk.length;
      if (size > maxJsonBytes) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof CodeBoxError) throw cause;
    throw invalid('is not whole', cause);
  }
  return Buffer.concat(chunks);
};

const tooLarge = () =>
  new CodeBoxError('too_large', `A JSON body has at most ${maxJsonBytes} bytes.`, {
    errors: [{ pointer: '', detail: `is over ${maxJsonBytes} bytes` }],
  });

const invalid = (detail: string, cause: unknown) =>
  new CodeBoxError('invalid_request', `The body ${detail}.`, { cause, errors: [{ pointer: '', detail }] });
