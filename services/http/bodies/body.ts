import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { type JsonBounds, jsonExcess, smallJson } from '../../json/json-bounds.ts';
import type { HttpEnv } from '../env.ts';
import { findJsonFault } from '../faults/json-fault.ts';

const readDeadlineMs = 30_000;
/** In a longer text that is not JSON, the fault is not located. */
const maxExplained = 1024 * 1024;

/**
 * Reads a whole JSON body: within its limits, within 30 s, valid UTF-8. The Content-Type is ignored, so that `curl -d
 * '{…}'` works. Returns the value and the bytes; an empty body is `{}`. Throws `timeout` when it is late, `too_large`,
 * and `invalid_request` for a body that breaks off or is not JSON, with the position, the usual cause, and the reader's
 * `advice`.
 */
export const readJsonBody = async <E extends HttpEnv>(
  c: Context<E>,
  bounds: JsonBounds = smallJson,
  advice?: string,
): Promise<{ value: unknown; bytes: Uint8Array }> => {
  const bytes = await readBytes(c, bounds.bytes);
  if (bytes.length === 0) return { value: {}, bytes };
  const excess = jsonExcess(bytes, bounds);
  if (excess !== undefined) throw tooLarge(excess);
  const text = decode(bytes);
  try {
    return { value: JSON.parse(text), bytes };
  } catch (cause) {
    throw invalid(`is not valid JSON${whyNot(text)}${advice === undefined ? '' : `. ${advice}`}`, cause);
  }
};

/** Reads a whole text body, with the same limit of bytes as a JSON body. */
export const readTextBody = async <E extends HttpEnv>(c: Context<E>, bounds: JsonBounds = smallJson): Promise<string> =>
  decode(await readBytes(c, bounds.bytes));

const decode = (bytes: Uint8Array): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw invalid('is not valid UTF-8', cause);
  }
};

const whyNot = (text: string): string => {
  const fault = text.length <= maxExplained ? findJsonFault(text) : undefined;
  if (!fault) return '';
  const { line, column, offset, cause } = fault;
  return ` at line ${line}, column ${column} (offset ${offset}): ${cause}`;
};

/**
 * Reads a whole body: at most `maxBytes`, within 30 s. Throws `timeout`, `too_large`, `invalid_request` for one that breaks off, and what
 * `holdBody` throws.
 */
export const readBytes = async <E extends HttpEnv>(c: Context<E>, maxBytes: number): Promise<Uint8Array> => {
  if (Number(c.req.header('content-length') ?? 0) > maxBytes) throw tooLarge(`is over ${maxBytes} bytes`);
  // Use the socket's own stream if there is one: a web stream around it costs as much as the rest of a small request.
  const incoming = c.env?.incoming;
  // Stays open when reading is aborted, so that the response can still be sent.
  const stream: AsyncIterable<Uint8Array> | null = incoming?.iterator({ destroyOnReturn: false }) ?? c.req.raw.body;
  if (!stream) return new Uint8Array();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, giveUp) => {
    timer = setTimeout(() => giveUp(new CodeBoxError('timeout', 'The body did not come in time.')), readDeadlineMs);
  });
  try {
    const bytes = await Promise.race([collect(stream, maxBytes, c.get('holdBody')), late]);
    if (incoming && !incoming.complete) throw invalid('is not whole', undefined);
    return bytes;
  } catch (error) {
    // The rest of the body must not be taken for the next request.
    c.header('Connection', 'close');
    throw error;
  } finally {
    clearTimeout(timer);
  }
};

const collect = async (
  stream: AsyncIterable<Uint8Array>,
  maxBytes: number,
  hold: ((bytes: number) => void) | undefined,
): Promise<Uint8Array> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of stream) {
      size += chunk.length;
      if (size > maxBytes) throw tooLarge(`is over ${maxBytes} bytes`);
      hold?.(chunk.length);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof CodeBoxError) throw cause;
    throw invalid('is not whole', cause);
  }
  return Buffer.concat(chunks);
};

const tooLarge = (detail: string) =>
  new CodeBoxError('too_large', `The body ${detail}.`, { errors: [{ pointer: '', detail }] });

const invalid = (detail: string, cause: unknown) =>
  new CodeBoxError('invalid_request', `The body ${detail}.`, { cause, errors: [{ pointer: '', detail }] });
