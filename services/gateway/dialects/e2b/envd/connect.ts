import type { Context } from 'hono';
import type { z } from 'zod';
import { CodeBoxError, type ErrorCode } from '#contract';
import { readBytes } from '../../../../http/bodies/body.ts';
import type { StreamWire } from '../../../../http/bodies/stream.ts';
import { checkInput } from '../../../../http/endpoints/endpoint.ts';
import { asCodeBoxError, setRetryAfter } from '../../../../http/problems/problem.ts';
import { type JsonBounds, jsonExcess, smallJson } from '../../../../json/json-bounds.ts';
import type { Env } from '../../../http/env.ts';
import { messageOf } from '../errors.ts';

/*
 * The Connect protocol with its JSON codec (https://connectrpc.com/docs/protocol). The body of a unary call is JSON. A stream consists of
 * envelopes: a byte of flags, the length in four bytes, and JSON; the last one has the flag 2, and the error of the call if it failed.
 */

const streamType = 'application/connect+json';
const endFlag = 2;
const headBytes = 5;
/** A message of a client's stream, which may have an input of 1 MiB in base64. */
const streamedJson: JsonBounds = { ...smallJson, bytes: 1_400_000 };

const codes: Record<ErrorCode, readonly [code: string, status: number]> = {
  invalid_request: ['invalid_argument', 400],
  unauthorized: ['unauthenticated', 401],
  forbidden: ['permission_denied', 403],
  cpu_limit: ['permission_denied', 403],
  not_found: ['not_found', 404],
  method_not_allowed: ['unimplemented', 404],
  gone: ['unavailable', 502],
  conflict: ['already_exists', 409],
  precondition_failed: ['failed_precondition', 400],
  idempotency_mismatch: ['failed_precondition', 400],
  too_large: ['resource_exhausted', 429],
  unsupported_media_type: ['invalid_argument', 400],
  range_not_satisfiable: ['out_of_range', 400],
  upgrade_required: ['invalid_argument', 400],
  too_many_requests: ['resource_exhausted', 429],
  quota_exceeded: ['resource_exhausted', 429],
  disk_full: ['resource_exhausted', 429],
  internal: ['internal', 500],
  bad_gateway: ['unavailable', 503],
  unavailable: ['unavailable', 503],
  timeout: ['deadline_exceeded', 504],
};

const toError = (error: CodeBoxError) => ({ code: codes[error.code][0], message: messageOf(error) });

/** Whether a request is for one of the services of E2B's daemon. */
export const isRpc = (c: Context<Env>): boolean => /^\/(?:filesystem|process)\./.test(c.req.path);

/** The response to a call that failed before its first message. A stream that fails has the status 200 and an end with the error. */
export const failedCall = (c: Context<Env>, error: CodeBoxError): Response => {
  setRetryAfter(c, error);
  if (c.req.header('content-type')?.startsWith(streamType) !== true || error.code === 'unauthorized')
    return c.json(toError(error), codes[error.code][1] as 400);
  return c.body(envelope(endFlag, { error: toError(error) }), 200, { 'Content-Type': streamType });
};

/** Reads the one message of a request for a stream. */
export const readMessage = async <S extends z.ZodType>(c: Context<Env>, schema: S): Promise<z.output<S>> => {
  const bytes = Buffer.from(await readBytes(c, smallJson.bytes));
  const length = bytes.length < headBytes ? undefined : bytes.readUInt32BE(1);
  if (length !== bytes.length - headBytes || bytes[0] !== 0) throw invalid('is not one uncompressed message');
  return readJson(bytes.subarray(headBytes), schema, smallJson);
};

/** Reads the messages of a client's stream as they arrive. The longest one so far counts as a body in memory. */
export async function* readMessages<S extends z.ZodType>(
  c: Context<Env>,
  body: AsyncIterable<Uint8Array>,
  schema: S,
): AsyncGenerator<z.output<S>> {
  let bytes = Buffer.alloc(0);
  let held = 0;
  for await (const chunk of body) {
    bytes = Buffer.concat([bytes, chunk]);
    if (bytes.length > held) c.get('holdBody')?.(bytes.length - held);
    held = Math.max(held, bytes.length);
    while (bytes.length >= headBytes) {
      const end = headBytes + bytes.readUInt32BE(1);
      if (bytes[0] !== 0) throw invalid('is compressed');
      if (end > streamedJson.bytes) throw invalid(`is over ${streamedJson.bytes} bytes`);
      if (bytes.length < end) break;
      yield readJson(bytes.subarray(headBytes, end), schema, streamedJson);
      bytes = bytes.subarray(end);
    }
  }
  if (bytes.length > 0) throw invalid('is not whole');
}

const readJson = <S extends z.ZodType>(json: Buffer, schema: S, bounds: JsonBounds): z.output<S> => {
  const excess = jsonExcess(json, bounds);
  if (excess !== undefined) throw invalid(excess);
  return checkInput(schema, parse(json.toString()), '');
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid('is not valid JSON', cause);
  }
};

const invalid = (detail: string, cause?: unknown) =>
  new CodeBoxError('invalid_request', 'The message is invalid.', { cause, errors: [{ pointer: '', detail }] });

/** Returns a message in its envelope. */
const envelope = (flags: number, message: object): Uint8Array<ArrayBuffer> => {
  const json = Buffer.from(JSON.stringify(message));
  const bytes = new Uint8Array(headBytes + json.length);
  bytes[0] = flags;
  new DataView(bytes.buffer).setUint32(1, json.length);
  bytes.set(json, headBytes);
  return bytes;
};

/** The response to a client's stream: one message without fields. */
export const acknowledge = (c: Context<Env>): Response =>
  c.body(Buffer.concat([envelope(0, {}), envelope(endFlag, {})]), 200, { 'Content-Type': streamType });

/** The framing of a stream of messages. One whose sandbox has ended is cut: clients then look whether that was the reason. */
export const messages: StreamWire<object> = {
  type: streamType,
  encode: (message) => envelope(0, message),
  end: () => envelope(endFlag, {}),
  fail: (thrown) => {
    const error = asCodeBoxError(thrown);
    return error.code === 'gone' ? undefined : envelope(endFlag, { error: toError(error) });
  },
};
