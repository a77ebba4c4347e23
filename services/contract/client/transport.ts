import type { z } from 'zod';
import { CodeBoxError, hasCode } from '../problems/errors.ts';
import { problemOf } from './problem.ts';

/** The address of the gateway and how to reach it. */
export interface TransportOptions {
  /** URL of the gateway, or of an app's own server that forwards `/v1` to it. */
  url: string;
  /** The API key; leave it out when a proxy adds it. */
  key?: string;
  /** Replaces the global fetch. */
  fetch?: typeof fetch;
  /**
   * How often to repeat a request that the gateway deferred (429 or 503 with Retry-After) or that did not reach it.
   * Default 0.
   */
  retries?: number;
}

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. What runs in the box continues. */
  signal?: AbortSignal;
  /** How long the call may take; for a stream, until its first byte. After that it rejects with `timeout`. */
  deadlineSeconds?: number;
  /** Overrides the client's `retries`. */
  retries?: number;
}

/** Options of calls that create or run something. */
export interface CreateOptions extends CallOptions {
  /**
   * Makes the call safe to repeat. Default: a new key per call; `false` sends none, which saves the gateway a record.
   */
  idempotencyKey?: string | false;
}

/** One request, as the client's methods describe it. */
export interface Call {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  json?: unknown;
  body?: RequestBody;
  headers?: Readonly<Record<string, string | undefined>>;
  /** Whether the call creates or runs something and so takes an Idempotency-Key. */
  creates?: boolean;
  /** The deadline when the caller sets none. */
  deadlineSeconds?: number;
  options?: CreateOptions | undefined;
}

/** A body to upload. A stream is sent once and cannot be repeated. */
export type RequestBody = string | Uint8Array<ArrayBuffer> | Blob | FormData | ReadableStream<Uint8Array>;

const defaultDeadlineSeconds = 60;
const maxPauseSeconds = 30;
/**
 * A request that has waited this long has reached the gateway: when its connection breaks, the client repeats it to get
 * its result.
 */
const reachedMs = 5000;

/** Path of a resource: each argument becomes one segment. */
export const pathOf = (...parts: readonly string[]): string => `/v1/${parts.map(encodeURIComponent).join('/')}`;

/**
 * Sends requests to the gateway, each with a deadline. A refusal rejects with a CodeBoxError: `unavailable` when the
 * gateway is unreachable, `timeout` after the deadline, `internal` for a response that violates the contract.
 */
export const createTransport = ({ url, key, fetch: ownFetch, retries = 0 }: TransportOptions) => {
  const base = url.replace(/\/+$/, '');
  const doFetch = ownFetch ?? ((input: string, init: RequestInit) => fetch(input, init));

  const once = async (call: Call, headers: Headers, signal: AbortSignal): Promise<Response> => {
    const body = call.json === undefined ? call.body : JSON.stringify(call.json);
    const isStream = body instanceof ReadableStream;
    let response: Response;
    try {
      response = await doFetch(`${base}${call.path}${searchOf(call.query)}`, {
        method: call.method ?? 'GET',
        headers,
        signal,
        ...(body !== undefined && { body }),
        ...(isStream && { duplex: 'half' }),
      });
    } catch (cause) {
      if (signal.aborted) throw signal.reason;
      throw new CodeBoxError('unavailable', 'The gateway cannot be reached, or its connection broke.', { cause });
    }
    if (response.status >= 400) throw await unbroken(problemOf(response), signal);
    return response;
  };

  /**
   * Repeats a request where that is safe: it was deferred, it did not arrive, or its connection broke while it waited.
   * A change with a condition is not repeated once it may have arrived: its own effect would make the condition false.
   */
  const send = async (call: Call, signal: AbortSignal): Promise<Response> => {
    const headers = headersOf(call, key);
    const { method = 'GET' } = call;
    const isSafe = method !== 'POST' && method !== 'PATCH' && !call.creates;
    const isRepeatable = (isSafe || headers.has('idempotency-key')) && !(call.body instanceof ReadableStream);
    const isConditional = method !== 'GET' && (headers.has('if-match') || headers.has('if-none-match'));
    const tries = call.options?.retries ?? retries;
    let wasCut = false;
    for (let repeats = 0; ; repeats++) {
      const startedAt = performance.now();
      try {
        return await once(call, headers, signal);
      } catch (error) {
        // An earlier attempt, whose response was lost, has deleted it.
        if (wasCut && method === 'DELETE' && hasCode(error, 'not_found')) return new Response(null, { status: 204 });
        if (!isRepeatable || !(error instanceof CodeBoxError)) throw error;
        const isCut = error.code === 'unavailable' && error.status === undefined;
        if (isCut && isConditional) throw error;
        wasCut ||= isCut;
        const hadArrived = isCut && performance.now() - startedAt > reachedMs;
        // A repeated request may find the first one still in progress.
        const isPutOff = error.retryAfterSeconds !== undefined && (error.code !== 'conflict' || repeats > 0);
        if (!hadArrived && !((isCut || isPutOff) && repeats < tries)) throw error;
        await pause(Math.min(error.retryAfterSeconds ?? 0.1 * 2 ** repeats, maxPauseSeconds), signal);
      }
    }
  };

  const within = async <T>(call: Call, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const seconds = call.options?.deadlineSeconds ?? call.deadlineSeconds ?? defaultDeadlineSeconds;
    const deadline = new AbortController();
    const late = () => deadline.abort(new CodeBoxError('timeout', `No response within ${seconds} seconds.`));
    const timer = setTimeout(late, Math.min(seconds * 1000, 0x7fff_ffff));
    const given = call.options?.signal;
    try {
      return await work(given ? AbortSignal.any([given, deadline.signal]) : deadline.signal);
    } finally {
      clearTimeout(timer);
    }
  };

  const json = <S extends z.ZodType>(schema: S, call: Call): Promise<z.output<S>> =>
    within(call, async (signal) => parse(schema, await textOf(await send(call, signal), signal)));

  return {
    /** The base URL, for uses outside of calls: a browser's address bar, a WebSocket. */
    base,

    /** Sends the caller's own request with the key and resolves with the response, whatever its status. */
    raw: (path: string, init: RequestInit): Promise<Response> => {
      const headers = new Headers(init.headers);
      if (key !== undefined) headers.set('authorization', `Bearer ${key}`);
      return doFetch(`${base}${path}`, { ...init, headers });
    },

    /**
     * Resolves with the response once its head has arrived, for bodies that are streamed; the deadline covers the head
     * only.
     */
    open: (call: Call): Promise<Response> => within(call, (signal) => send(call, signal)),

    /** Resolves with the bytes of the body. */
    bytes: (call: Call): Promise<Uint8Array<ArrayBuffer>> =>
      within(call, async (signal) => {
        const response = await send(call, signal);
        return new Uint8Array(await unbroken(response.arrayBuffer(), signal));
      }),

    /** Resolves with the JSON body, checked against `schema`. */
    json,

    /** Resolves once the request has succeeded, without a result. */
    done: (call: Call): Promise<void> =>
      within(call, async (signal) => {
        await textOf(await send(call, signal), signal);
      }),

    /** Yields all items of a list, page after page. */
    async *items<T>(
      schema: z.ZodType<{ items: T[]; nextCursor: string | null }>,
      call: Call,
    ): AsyncGenerator<T, void, undefined> {
      for (let cursor: string | undefined; ; ) {
        const page = await json(schema, { ...call, query: { ...call.query, cursor } });
        yield* page.items;
        if (page.nextCursor === null) return;
        cursor = page.nextCursor;
      }
    },
  };
};

export type Transport = ReturnType<typeof createTransport>;

/** Parses JSON and checks it against `schema`; throws `internal` when it does not match. */
export const parse = <S extends z.ZodType>(schema: S, text: string): z.output<S> => {
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CodeBoxError('internal', 'The gateway sent an unexpected response.', { cause });
  }
};

/** Waits; rejects with the signal's reason when the signal aborts. */
export const pause = (seconds: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener('abort', onAbort, { once: true });
  });

/** Resolves with the result of `work`; throws `timeout` when that takes longer. */
export const inTime = async <T>(work: Promise<T>, seconds: number): Promise<T> => {
  const stopWaiting = new AbortController();
  const late = pause(seconds, stopWaiting.signal).then(() => {
    throw new CodeBoxError('timeout', `No response within ${seconds} seconds.`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    // Nobody waits for it any more.
    late.catch(() => {});
    stopWaiting.abort();
  }
};

const headersOf = ({ json, headers, creates, options }: Call, key: string | undefined): Headers => {
  const all = new Headers();
  if (key !== undefined) all.set('authorization', `Bearer ${key}`);
  if (json !== undefined) all.set('content-type', 'application/json');
  // Pages on plain HTTP have no `randomUUID`.
  if (creates && options?.idempotencyKey !== false)
    all.set('idempotency-key', options?.idempotencyKey ?? crypto.getRandomValues(new Uint32Array(4)).join('-'));
  for (const [name, value] of Object.entries(headers ?? {})) if (value !== undefined) all.set(name, value);
  return all;
};

const searchOf = (query: Call['query']): string => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(name, String(value));
  return search.size > 0 ? `?${search}` : '';
};

const textOf = (response: Response, signal: AbortSignal): Promise<string> => unbroken(response.text(), signal);

/** A body to its end; `unavailable` when it breaks off. */
const unbroken = async <T>(reading: Promise<T>, signal: AbortSignal): Promise<T> => {
  try {
    return await reading;
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new CodeBoxError('unavailable', 'The response was interrupted.', { cause });
  }
};
