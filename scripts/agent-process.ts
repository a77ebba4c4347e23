import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import nodeFlags from './node-flags.json' with { type: 'json' };
import { projectFolder } from './project.ts';

export interface AgentProcess {
  /** Ends it, and waits for that. */
  stop: () => Promise<void>;
}

const [firstPauseMs, longestPauseMs] = [500, 30_000];
/** One that has lived for so long has not failed at its start. */
const soundMs = 60_000;

/**
 * Keeps an agent running beside the gateway, in a process of its own: with its own memory and its own crashes, after which it is
 * started again, ever later.
 */
export const runAgent = (readEnv: () => Promise<NodeJS.ProcessEnv>, log: (line: string) => void): AgentProcess => {
  const stopping = new AbortController();
  let child: ChildProcess | undefined;

  const keepRunning = async () => {
    const env = await readEnv();
    for (let pauseMs = firstPauseMs; !stopping.signal.aborted; ) {
      const startedAt = performance.now();
      child = spawn(process.execPath, [...nodeFlags, join(projectFolder, 'services/agent/main.ts')], {
        env,
        // By the channel it knows when the gateway has died.
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
      const how = await once(child, 'exit').then(
        ([code, signal]) => `ended (${signal ?? code})`,
        (error: unknown) => `does not start: ${error}`,
      );
      if (stopping.signal.aborted) return;
      pauseMs = performance.now() - startedAt > soundMs ? firstPauseMs : Math.min(2 * pauseMs, longestPauseMs);
      log(`The agent ${how}; it is started again in ${Math.round(pauseMs / 1000)} s.`);
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };

  const kept = keepRunning();
  return {
    async stop() {
      stopping.abort();
      child?.kill('SIGTERM');
      await kept;
    },
  };
};

/**
 * Builds the page in a process of its own, as the bundler takes more memory than all the rest. Answers its folder; undefined, having
 * told why, when it cannot be built.
 */
export const buildPageAside = async (dataDir: string, log: (line: string) => void): Promise<string | undefined> => {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [join(projectFolder, 'scripts/web.ts'), dataDir]);
    return stdout.trim();
  } catch (error) {
    log(`The agent serves no page. ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
};
