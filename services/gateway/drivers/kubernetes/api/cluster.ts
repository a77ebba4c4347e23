import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  ApiException,
  type ConfigurationOptions,
  CoreV1Api,
  KubeConfig,
  Observable,
  type RequestContext,
} from '@kubernetes/client-node';
import { Agent, type buildConnector } from 'undici';
import { CodeBoxError } from '#contract';
import { ConfigurationError } from '../../../../configuration-error.ts';
import { orAborted } from '../../../../waiting/or-aborted.ts';
import { type CircuitOptions, createCircuit } from '../../circuit.ts';

/** Options of one request, with the signal that ends it. */
export type RequestOptions = ConfigurationOptions;

const callMs = 15_000;
/** A request that the API server had no time for, or whose connection was cut, is sent this many times. */
const mostTries = 5;
const longestPauseMs = 5000;
/** While a call takes longer than this, the API server is probed at this interval. */
const suspectMs = 5000;

interface CallOptions {
  /** Whether the request may be sent again if the API server may have acted on it; true by default. */
  isRepeatable?: boolean;
}

/** Idle connections are closed before load balancers do so. */
const keptIdleMs = 30_000;

const agentFor = (connect: buildConnector.BuildOptions): Agent =>
  new Agent({ connect, allowH2: false, keepAliveTimeout: keptIdleMs });

/**
 * The library opens a connection for each request. Here requests with the same certificates use kept ones. None carries two requests at once,
 * as those of HTTP/2 do: one that has become silent is closed with the request that gives up waiting, and holds up no other.
 */
class KeptConnections extends KubeConfig {
  #connect: object | undefined;
  #agent: Agent | undefined;

  override createDispatcherOptions(...given: Parameters<KubeConfig['createDispatcherOptions']>) {
    const options = super.createDispatcherOptions(...given);
    const connect = options.type === 'agent' ? options.connect : undefined;
    if (!isDeepStrictEqual(connect, this.#connect)) {
      // The connections of an earlier one end when they have been idle for long.
      this.#connect = connect;
      this.#agent = connect && agentFor(connect as buildConnector.BuildOptions);
    }
    // The library makes a dispatcher only where it connects through a proxy.
    return options.type === 'agent' ? ({ type: 'none' } as const) : options;
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await super.applySecurityAuthentication(context);
    if (this.#agent) context.setDispatcher(this.#agent);
  }
}

/** Returns the HTTP status of an error response of the API server; undefined for other errors. */
export const apiStatus = (error: unknown): number | undefined =>
  error instanceof ApiException ? error.code : undefined;

/**
 * Reads a kubeconfig file or, without a path, `KUBECONFIG`, `~/.kube/config`, or the service account of the pod that this process runs in.
 * Throws a ConfigurationError when there is none.
 */
export const readKubeConfig = (path?: string): KubeConfig => {
  const config = new KeptConnections();
  try {
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
  } catch (error) {
    throw new ConfigurationError(`The kubeconfig cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  // The library's default server.
  if (config.getCurrentCluster()?.server === 'http://localhost:8080')
    throw new ConfigurationError('No cluster is configured: set KUBECONFIG, or run in a pod with a service account.');
  return config;
};

/**
 * The API server of a cluster. Every call has a deadline, and every error is translated: `unavailable` when the server does not respond or
 * refuses. While it does not respond at all, calls fail at once, including pending ones, and `onChange` is called.
 */
export const createCluster = (config: KubeConfig, onChange?: CircuitOptions['onChange']) => {
  const core = config.makeApiClient(CoreV1Api);
  const circuit = createCircuit({
    backend: 'The Kubernetes API server',
    probe: async (signal) => {
      const asked = core.getAPIResources(endedBy(signal));
      await orAborted(asked, signal).catch((error: unknown) => {
        // A refusal is a response too.
        if ((apiStatus(error) ?? 500) >= 500) throw error;
      });
    },
    ...(onChange && { onChange }),
  });

  /** Runs one request, until its deadline of 15 seconds or `signal` ends it. */
  const call = async <T>(
    signal: AbortSignal,
    request: (core: CoreV1Api, options: RequestOptions) => Promise<T>,
    { isRepeatable = true }: CallOptions = {},
  ): Promise<T> => {
    const opened = await circuit.enter();
    const deadline = AbortSignal.any([signal, opened, AbortSignal.timeout(callMs)]);
    const suspicion = setInterval(() => void circuit.check(), suspectMs);
    const attempt = async (tries: number): Promise<T> => {
      try {
        return await orAborted(request(core, endedBy(deadline)), deadline);
      } catch (error) {
        const isUnclear = (apiStatus(error) ?? 500) >= 500;
        if (isUnclear && !signal.aborted) void circuit.check();
        const mayRepeat = isUnclear ? isRepeatable : apiStatus(error) === 429;
        if (!mayRepeat || tries === mostTries || deadline.aborted) throw error;
        await sleep(pauseBefore(error), undefined, { signal: deadline });
        return await attempt(tries + 1);
      }
    };
    try {
      return await attempt(1);
    } catch (cause) {
      const text = deadline.aborted
        ? 'The Kubernetes API server did not respond in time.'
        : 'The Kubernetes API server refused a request.';
      throw new CodeBoxError('unavailable', text, { cause, retryAfterSeconds: 5 });
    } finally {
      clearInterval(suspicion);
    }
  };

  const callUnless =
    (status: number, { isRepeatable = true }: CallOptions = {}) =>
    <T>(
      signal: AbortSignal,
      request: (core: CoreV1Api, options: RequestOptions) => Promise<T>,
    ): Promise<T | undefined> =>
      call(
        signal,
        (core, options) =>
          request(core, options).catch((error: unknown) => {
            if (apiStatus(error) === status) return undefined;
            throw error;
          }),
        { isRepeatable },
      );

  return {
    config,
    call,
    /** Like `call`; resolves with undefined for a 404. */
    callIfThere: callUnless(404),
    /** Like `call`; resolves with undefined for a 403. */
    callIfAllowed: callUnless(403),
    /**
     * Like `call`, for a request that creates an object; resolves with undefined for a 409. It is not repeated when the API server may have
     * acted on it: a second response could not tell this object from one that was there before.
     */
    callIfNew: callUnless(409, { isRepeatable: false }),
  };
};

export type Cluster = ReturnType<typeof createCluster>;

/** Returns how long to wait before a request is sent again: the time that the API server gives or, after a cut connection, a moment. */
const pauseBefore = (error: unknown): number => {
  const seconds = error instanceof ApiException ? Number(error.headers['retry-after'] ?? 1) : 0.2;
  return Math.min(seconds * 1000, longestPauseMs);
};

/** Returns the options that let a signal end a request. */
const endedBy = (signal: AbortSignal): RequestOptions => ({
  middleware: [
    {
      pre(context) {
        context.setSignal(signal);
        return new Observable(Promise.resolve(context));
      },
      post: (response) => new Observable(Promise.resolve(response)),
    },
  ],
  middlewareMergeStrategy: 'append',
});
