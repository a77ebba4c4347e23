import type { z } from 'zod';
import { problemOf } from './client-problem.ts';
import { CodeBoxError } from './errors.ts';

/** Where the gateway is, and by what it is reached. */
export interface TransportOptions {
  /** Of the gateway, or of an app's own server that passes `/v1` on to it. */
  url: string;
  /** The API key; left out where a proxy adds it. */
  key?: string;
  /** Instead of the global one. */
  fetch?: typeof fetch;
  /** How often a request is repeated that the gateway put off (429 or 503 with Retry-After) or that did not reach it. Default 0. */
  retries?: number;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. What runs in the box goes on. */
  signal?: AbortSignal;
  /** How long the call may take; a stream: until its first byte. Past it: `timeout`. */
  deadlineSeconds?: number;
  /** Instead of the client's. */
  retries?: number;
}

/** What calls take that create or run something. */
export interface CreateOptions extends CallOptions {
  /** Makes repeating safe. Default: a new one per call; `false` sends none, which saves the gateway a record. */
  idempotencyKey?: string | false;
}

/** One request as the methods of the client describe it. */
export interface Call {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  json?: unknown;
  body?: RequestBody;
  headers?: Readonly<Record<string, string | undefined>>;
  /** Whether it creates or runs something, so that it takes an Idempotency-Key. */
  creates?: boolean;
  /** When the caller sets none. */
  deadlineSeconds?: number;
  options?: CreateOptions | undefined;
}

/** What a file may be uploaded from. A stream is sent once; it is not repeated. */
export type RequestBody = string | Uint8Array<ArrayBuffer> | Blob | FormData | ReadableStream<Uint8Array>;

const defaultDeadlineSeconds = 60;
const maxPauseSeconds = 30;
/** A request that has waited this long reached the gateway: when its connection breaks, it is taken up again. */
const reachedMs = 5000;

/** Path of one resource: each part is one segment. */
export const pathOf = (...parts: readonly string[]): string => `/v1/${parts.map(encodeURIComponent).join('/')}`;

/**
 * Requests to the gateway, each with a deadline. What is refused rejects with a CodeBoxError: `unavailable` where the gateway
 * is not reached, `timeout` past the deadline, `internal` for an answer that is not what the contract says.
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
    if (response.status >= 400) throw await problemOf(response);
    return response;
  };

  /** Repeats what may be repeated: what was put off, what did not arrive, and what was waited for when its connection broke. */
  const send = async (call: Call, signal: AbortSignal): Promise<Response> => {
    const headers = headersOf(call, key);
    const isSafe = call.method !== 'POST' && call.method !== 'PATCH';
    const isRepeatable = (isSafe || headers.has('idempotency-key')) && !(call.body instanceof ReadableStream);
    const tries = call.options?.retries ?? retries;
    for (let repeats = 0; ; repeats++) {
      const startedAt = performance.now();
      try {
        return await once(call, headers, signal);
      } catch (error) {
        if (!isRepeatable || !(error instanceof CodeBoxError)) throw error;
        const isCut = error.code === 'unavailable' && error.status === undefined;
        const hadArrived = isCut && performance.now() - startedAt > reachedMs;
        // A repeated request may meet the first one still in progress.
        const isPutOff = error.retryAfterSeconds !== undefined && (error.code !== 'conflict' || repeats > 0);
        if (!hadArrived && !((isCut || isPutOff) && repeats < tries)) throw error;
        await pause(Math.min(error.retryAfterSeconds ?? 0.1 * 2 ** repeats, maxPauseSeconds), signal);
      }
    }
  };

  const within = async <T>(call: Call, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const seconds = call.options?.deadlineSeconds ?? call.deadlineSeconds ?? defaultDeadlineSeconds;
    const deadline = new AbortController();
    const late = () => deadline.abort(new CodeBoxError('timeout', `No answer within ${seconds} seconds.`));
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
    /** For what takes no call: a browser's address bar, a WebSocket. */
    base,

    /** A request of the caller's own, with the key: whatever the answer is, it is handed on as it is. */
    raw: (path: string, init: RequestInit): Promise<Response> => {
      const headers = new Headers(init.headers);
      if (key !== undefined) headers.set('authorization', `Bearer ${key}`);
      return doFetch(`${base}${path}`, { ...init, headers });
    },

    /** The answer as it comes, for bodies that are streamed; the deadline ends with its head. */
    open: (call: Call): Promise<Response> => within(call, (signal) => send(call, signal)),

    /** The bytes of the answer. */
    bytes: (call: Call): Promise<Uint8Array<ArrayBuffer>> =>
      within(call, async (signal) => {
        const response = await send(call, signal);
        return new Uint8Array(await unbroken(response.arrayBuffer(), signal));
      }),

    /** The JSON of the answer, as `schema` says. */
    json,

    /** Only that it was done. */
    done: (call: Call): Promise<void> =>
      within(call, async (signal) => {
        await textOf(await send(call, signal), signal);
      }),

    /** All items of a list, page after page. */
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

/** Text as `schema` says; throws `internal` when it is something else. */
export const parse = <S extends z.ZodType>(schema: S, text: string): z.output<S> => {
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CodeBoxError('internal', 'The gateway sent an unexpected answer.', { cause });
  }
};

/** Waits; rejects with the signal's reason when that fires. */
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

/** What `work` gives, or `timeout` when that takes longer. */
export const inTime = async <T>(work: Promise<T>, seconds: number): Promise<T> => {
  const stopWaiting = new AbortController();
  const late = pause(seconds, stopWaiting.signal).then(() => {
    throw new CodeBoxError('timeout', `No answer within ${seconds} seconds.`);
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
  if (creates && options?.idempotencyKey !== false)
    all.set('idempotency-key', options?.idempotencyKey ?? crypto.randomUUID());
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
    throw new CodeBoxError('unavailable', 'The answer broke off.', { cause });
  }
};
