import { Readable } from 'node:stream';
import { KernelAPI, ServerConnection } from '@jupyterlab/services';
import {
  type Dispatcher,
  Headers as UndiciHeaders,
  Request as UndiciRequest,
  Response as UndiciResponse,
  fetch as undiciFetch,
} from 'undici';
import { z } from 'zod';
import { CodeBoxError, type ErrorCode } from '#contract';
import type { Peer } from '../../websockets/peer.ts';
import type { RawResponse } from './client.ts';
import { readBounded, translate } from './protocol/response.ts';
import { openBoxWebSocket } from './transport/box-websocket.ts';
import { type Endpoint, tokenHeader } from './transport/endpoint.ts';

/**
 * The standard Jupyter API of a box server. A kernel is a context. Throws `not_found` for a kernel that does not exist and `unavailable`
 * when the box does not respond.
 */
export const createJupyterClient = (agent: Dispatcher, endpoint: Endpoint) => {
  const { token } = endpoint;
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost/',
    wsUrl: 'ws://localhost/',
    token: '',
    init: { headers: { [tokenHeader]: token } },
    // All three from undici: its fetch does not accept a Request of Node's built-in fetch.
    Request: UndiciRequest as unknown as typeof Request,
    Headers: UndiciHeaders as unknown as typeof Headers,
    fetch: boundedFetch(agent) as unknown as typeof fetch,
  });

  const call = async <T>(request: Promise<T>): Promise<T> => {
    try {
      return await request;
    } catch (cause) {
      if (cause instanceof ServerConnection.ResponseError && cause.response.status === 404) {
        throw new CodeBoxError('not_found', 'There is no such context.', { cause });
      }
      if (cause instanceof ServerConnection.ResponseError && cause.response.status === 429) {
        throw new CodeBoxError('too_many_requests', 'The box has too many contexts.', { cause, retryAfterSeconds: 1 });
      }
      if (cause instanceof ServerConnection.ResponseError && cause.response.status === 400) {
        throw new CodeBoxError('invalid_request', 'The box refused the context.', { cause });
      }
      throw new CodeBoxError('unavailable', 'The box could not handle the request.', { cause, retryAfterSeconds: 1 });
    }
  };

  return {
    async shutdown(id: string): Promise<void> {
      await call(KernelAPI.shutdownKernel(id, settings));
    },

    /** Interrupts the code that the kernel runs. */
    async interrupt(id: string): Promise<void> {
      await call(KernelAPI.interruptKernel(id, settings));
    },

    /** Makes one request below `/api/`; the caller reads the body. Throws the refusal of the server. */
    async request({ method, path, body, signal }: JupyterRequest): Promise<RawResponse> {
      try {
        const {
          statusCode,
          headers,
          body: content,
        } = await agent.request({
          origin: 'http://localhost',
          path: `/api/${path}`,
          method,
          headers: { [tokenHeader]: token, ...(body && { 'content-type': 'application/json' }) },
          // An upload may pause, so the caller sets its deadline.
          ...(body && { body, headersTimeout: 0 }),
          ...(signal && { signal }),
        });
        content.on('error', () => {});
        if (statusCode >= 400) throw refusalOf(statusCode, await readBounded(content));
        return { status: statusCode, headers, body: content };
      } catch (error) {
        throw translate(error);
      }
    },

    /** Opens the channels of a kernel, in the protocol with binary messages. */
    channels: (id: string): Promise<Peer> =>
      openBoxWebSocket(endpoint, {
        path: `api/kernels/${id}/channels`,
        protocols: [messageProtocol],
        maxMessageBytes,
        // Before that, messages of the kernel would be lost.
        untilReady: true,
        missing: 'There is no such kernel.',
      }),
  };
};

const refusals: Record<number, ErrorCode> = { 404: 'not_found', 409: 'conflict', 413: 'too_large' };
const maxReason = 1000;

/** The error for a refusal of the standard API, whose body is JSON or a sentence. */
const refusalOf = (status: number, text: string): CodeBoxError => {
  if (status >= 500) return new CodeBoxError('unavailable', 'The box could not handle the request.', { cause: text });
  const { message } = bodySchema.safeParse(text).data ?? { message: text };
  return new CodeBoxError(refusals[status] ?? 'invalid_request', message.slice(0, maxReason));
};

const bodySchema = z
  .string()
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      context.addIssue('is not JSON');
      return z.NEVER;
    }
  })
  .pipe(z.object({ message: z.string() }));

/** A request of the standard API; `path` is percent-encoded and has its query. */
export interface JupyterRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: Readable;
  signal?: AbortSignal;
}

export type JupyterClient = ReturnType<typeof createJupyterClient>;

/** Messages of kernels, with their parts as they are on the wire of the kernel. */
const messageProtocol = 'v1.kernel.websocket.jupyter.org';
const maxMessageBytes = 64 * 1024 * 1024;
const deadlineMs = 60_000;

/** A fetch through the socket of the box that reads each response whole and within bounds: the box is not trusted. */
const boundedFetch =
  (dispatcher: Dispatcher) =>
  async (input: Parameters<typeof undiciFetch>[0], init?: Parameters<typeof undiciFetch>[1]) => {
    const response = await undiciFetch(input, { ...init, dispatcher, signal: AbortSignal.timeout(deadlineMs) });
    const text = response.body ? await readBounded(Readable.fromWeb(response.body)) : '';
    const { status, statusText, headers } = response;
    return new UndiciResponse(text === '' ? null : text, { status, statusText, headers });
  };
