import { Agent } from 'node:http';
import Docker from 'dockerode';
import { CodeBoxError } from '#contract';
import { orAborted } from '../../../../waiting/or-aborted.ts';
import { type CircuitOptions, createCircuit } from '../../circuit.ts';

/** Returns the HTTP status of an error response of the daemon, which dockerode's errors carry; undefined for other errors. */
export const httpStatus = (error: unknown): number | undefined => {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return undefined;
  return typeof error.statusCode === 'number' ? error.statusCode : undefined;
};

/** While a call takes longer than this, the daemon is probed at this interval. */
const suspectMs = 5000;

/**
 * The Docker daemon. Every call has a deadline, and every error is translated: `unavailable` when the daemon does not respond or refuses.
 * While it does not respond at all, calls fail at once, including pending ones, and `onChange` is called. `host` is `unix:///path` or
 * `tcp://host:port`; the default is DOCKER_HOST of the environment, or the standard socket.
 */
export const createDaemon = (host?: string, onChange?: CircuitOptions['onChange']) => {
  // The daemon might close a kept connection just as the next request is written to it.
  const agent = new Agent({ keepAlive: false });
  const docker = new Docker(host === undefined ? {} : connection(host));
  Object.assign(docker.modem, { agent });
  // The type of `ping` lacks the options.
  const ping = docker.ping.bind(docker) as (options: { abortSignal: AbortSignal }) => Promise<unknown>;
  const circuit = createCircuit({
    backend: 'The Docker daemon',
    probe: (abortSignal) => orAborted(ping({ abortSignal }), abortSignal),
    ...(onChange && { onChange }),
  });
  return {
    docker,
    /** Runs one request, until `timeoutMs` (30 seconds by default) or `signal` ends it. */
    async call<T>(
      signal: AbortSignal,
      request: (docker: Docker, abortSignal: AbortSignal) => Promise<T>,
      timeoutMs = 30_000,
    ): Promise<T> {
      const opened = await circuit.enter();
      const deadline = AbortSignal.any([signal, opened, AbortSignal.timeout(timeoutMs)]);
      const suspicion = setInterval(() => void circuit.check(), suspectMs);
      try {
        return await orAborted(request(docker, deadline), deadline);
      } catch (cause) {
        if (httpStatus(cause) === undefined && !signal.aborted) void circuit.check();
        const text = deadline.aborted
          ? 'The Docker daemon did not respond in time.'
          : 'The Docker daemon refused a request.';
        throw new CodeBoxError('unavailable', text, { cause, retryAfterSeconds: 5 });
      } finally {
        clearInterval(suspicion);
      }
    },
    /** Like `call`, for idempotent requests: resolves with undefined for a 404, and for a 304 or 409, which count as done. */
    async callIfThere<T>(
      signal: AbortSignal,
      request: (docker: Docker, abortSignal: AbortSignal) => Promise<T>,
    ): Promise<T | undefined> {
      return this.call(signal, async (docker, abortSignal) => {
        try {
          return await request(docker, abortSignal);
        } catch (error) {
          const status = httpStatus(error);
          if (status === 404 || status === 304 || status === 409) return undefined;
          throw error;
        }
      });
    },
  };
};

export type Daemon = ReturnType<typeof createDaemon>;

const connection = (host: string): Docker.DockerOptions => {
  if (host.startsWith('unix://')) return { socketPath: host.slice('unix://'.length) };
  const url = new URL(host);
  return { host: url.hostname, port: url.port || 2375, protocol: url.protocol === 'https:' ? 'https' : 'http' };
};
