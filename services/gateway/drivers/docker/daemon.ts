import { Agent } from 'node:http';
import Docker from 'dockerode';
import { CodeBoxError } from '#contract';
import { orAborted } from '../../../waiting/or-aborted.ts';
import { type CircuitOptions, createCircuit } from './circuit.ts';

/** What the daemon answered with, when it answered with an error: dockerode's errors carry it. */
export const httpStatus = (error: unknown): number | undefined => {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return undefined;
  return typeof error.statusCode === 'number' ? error.statusCode : undefined;
};

/** A call that takes longer has the daemon asked for a sign of life, again and again. */
const suspectMs = 5000;

/**
 * The Docker daemon, every call with a deadline and every error translated: `unavailable` when it does not answer or refuses.
 * While it does not answer at all, calls fail at once, also those that wait already; `onChange` is told of that.
 * `host` is `unix:///path` or `tcp://host:port`; without it, what the environment's DOCKER_HOST says, or the usual socket.
 */
export const createDaemon = (host?: string, onChange?: CircuitOptions['onChange']) => {
  // A connection that is kept may be closed by the daemon just as the next request is written to it.
  const agent = new Agent({ keepAlive: false });
  const docker = new Docker(host === undefined ? {} : connection(host));
  Object.assign(docker.modem, { agent });
  // Its type lacks the options.
  const ping = docker.ping.bind(docker) as (options: { abortSignal: AbortSignal }) => Promise<unknown>;
  const circuit = createCircuit({
    probe: (abortSignal) => orAborted(ping({ abortSignal }), abortSignal),
    ...(onChange && { onChange }),
  });
  return {
    docker,
    /** Runs one request. `timeoutMs` (30 seconds unless told) and `signal` end it, whichever comes first. */
    async call<T>(
      signal: AbortSignal,
      request: (docker: Docker, abortSignal: AbortSignal) => Promise<T>,
      timeoutMs = 30_000,
    ): Promise<T> {
      const isAway = await circuit.enter();
      const deadline = AbortSignal.any([signal, isAway, AbortSignal.timeout(timeoutMs)]);
      const suspicion = setInterval(() => void circuit.check(), suspectMs);
      try {
        return await orAborted(request(docker, deadline), deadline);
      } catch (cause) {
        if (httpStatus(cause) === undefined && !signal.aborted) void circuit.check();
        const text = deadline.aborted ? 'The Docker daemon did not answer in time.' : 'The Docker daemon refused.';
        throw new CodeBoxError('unavailable', text, { cause, retryAfterSeconds: 5 });
      } finally {
        clearInterval(suspicion);
      }
    },
    /** As `call`, but a 404 gives undefined and a 304 or 409 counts as done: for what must be idempotent. */
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
