import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { projectFolder } from '../scripts/project.ts';
import { hostProgram, programOf, type Service } from './prepared-services.ts';
import type { HostReply, HostRequest } from './service-host.ts';

/** A gateway or an agent that was started. */
export interface RunningService {
  /** Everything printed so far. */
  output: () => string;
  /** Stops it as SIGTERM does, and waits until it has stopped. */
  stop: () => Promise<void>;
  hasEnded: () => boolean;
}

/** A service in a process of its own. */
interface ServiceProcess extends RunningService {
  pid: number;
  /** Sends a signal, and waits until the process has ended. */
  kill: (signal: NodeJS.Signals) => Promise<void>;
}

const readyDeadlineMs = 120_000;
const readyPauseMs = 100;
/** Characters of output that are kept. */
const keptOutput = 1_000_000;

const hasExited = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** Collects what a process prints. */
const outputOf = ({ stdout, stderr }: ChildProcess) => {
  let dropped = 0;
  let output = '';
  for (const stream of [stdout, stderr])
    stream?.on('data', (chunk: Buffer) => {
      const all = output + chunk.toString();
      output = all.slice(-keptOutput);
      dropped += all.length - output.length;
    });
  return {
    length: () => dropped + output.length,
    since: (start: number) => output.slice(Math.max(0, start - dropped)),
  };
};

const spawnService = (service: Service, env: Record<string, string>, root: string): ServiceProcess => {
  const { args, env: needed } = programOf(service, root);
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...needed, ...env },
  });
  const output = outputOf(child);
  const hasEnded = () => hasExited(child);
  const kill = async (signal: NodeJS.Signals) => {
    if (hasEnded()) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  return { pid: child.pid ?? 0, output: () => output.since(0), hasEnded, kill, stop: () => kill('SIGTERM') };
};

/**
 * Launches a service as a process of its own, from a copy of the project below `root` if it is given. `pid` and `kill` are those of the
 * process that was launched last.
 */
export const ownProcess = (service: Service, root = projectFolder) => {
  let last: ServiceProcess | undefined;
  return {
    launch: async (env: Record<string, string>): Promise<RunningService> => {
      last = spawnService(service, env, root);
      return last;
    },
    pid: () => last?.pid ?? 0,
    /** Sends a signal, and waits until the process has ended. */
    kill: async (signal: NodeJS.Signals): Promise<void> => last?.kill(signal),
  };
};

interface Host {
  child: ChildProcess;
  output: ReturnType<typeof outputOf>;
  /** Sends a request; resolves when it is done, and throws what the host reports. */
  send: (request: HostRequest) => Promise<void>;
}

let host: Host | undefined;
let lastId = 0;

const openHost = (): Host => {
  if (host && !hasExited(host.child)) return host;
  const { args, env } = hostProgram();
  const child = spawn(process.execPath, args, {
    cwd: projectFolder,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, ...env },
  });
  const output = outputOf(child);
  const waiting = new Map<number, PromiseWithResolvers<void>>();
  child.on('message', ({ id, error }: HostReply) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error === undefined) resolve?.();
    else reject?.(new Error(error));
  });
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error(`The host of services ended:\n${output.since(0)}`));
    waiting.clear();
  });
  const send = (request: HostRequest) => {
    if (!child.connected) throw new Error(`The host of services ended:\n${output.since(0)}`);
    const done = Promise.withResolvers<void>();
    waiting.set(request.id, done);
    child.send(request);
    return done.promise;
  };
  // The worker ends when its tests have, and the host with it.
  child.unref();
  child.channel?.unref();
  for (const stream of [child.stdout, child.stderr]) (stream as Socket | null)?.unref();
  host = { child, output, send };
  return host;
};

/** Settings that services read from their configuration; libraries read others from the environment of the process. */
const isSetting = (name: string): boolean => /^(CODEBOX|DATABASE|OPENAI|ANTHROPIC)_/.test(name);

/** Returns a setting for which a service needs a process of its own; undefined if there is none. */
export const ownSetting = (env: Record<string, string>): string | undefined =>
  Object.keys(env).find((name) => !isSetting(name));

/**
 * Starts a service in the process that all hosted services of this worker share: that takes a fraction of the CPU time of a process, whose
 * code is cold. Throws if a setting is not one of the service's configuration.
 */
export const hostService = async (service: Service, env: Record<string, string>): Promise<RunningService> => {
  const own = ownSetting(env);
  if (own !== undefined) throw new Error(`${own} is for a whole process: the service needs one of its own.`);
  const { child, output, send } = openHost();
  const start = output.length();
  lastId += 1;
  const of = lastId;
  const since = () => output.since(start);
  await send({ call: 'start', id: of, service, env: { ...process.env, ...env } }).catch((error: Error) => {
    throw new Error(`The ${service} did not start: ${error.message}\n${since()}`, { cause: error });
  });
  let hasStopped = false;
  return {
    output: since,
    hasEnded: () => hasStopped || hasExited(child),
    async stop() {
      if (hasStopped || !child.connected) return;
      hasStopped = true;
      lastId += 1;
      await send({ call: 'stop', id: lastId, of });
    },
  };
};

/** Waits until a service serves at this URL; throws with its output if it ends first, or does not in time. */
export const waitUntilReady = async (service: RunningService, url: string): Promise<void> => {
  const deadline = performance.now() + readyDeadlineMs;
  for (;;) {
    const isReady = await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) return;
    if (service.hasEnded() || performance.now() > deadline)
      throw new Error(`The service at ${url} did not start:\n${service.output()}`);
    await sleep(readyPauseMs);
  }
};
