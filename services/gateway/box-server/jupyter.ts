import { Readable } from 'node:stream';
import { KernelAPI, ServerConnection } from '@jupyterlab/services';
import {
  type Dispatcher,
  Headers as UndiciHeaders,
  Request as UndiciRequest,
  Response as UndiciResponse,
  fetch as undiciFetch,
} from 'undici';
import { CodeBoxError } from '#contract';
import { readBounded } from './protocol/response.ts';
import { type Endpoint, tokenHeader } from './transport/endpoint.ts';

/**
 * The standard Jupyter API of a box server, through Jupyter's own client: kernels. A kernel is a context. Throws
 * `not_found` for a kernel that does not exist and `unavailable` when the box does not respond.
 */
export const createJupyterClient = (agent: Dispatcher, { token }: Pick<Endpoint, 'token'>) => {
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
  };
};

export type JupyterClient = ReturnType<typeof createJupyterClient>;

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
