import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { wrongConfigurationCode } from '../services/configuration-error.ts';
import { buildPageAside } from './page.ts';
import { keepRunning, type PartOptions } from './part.ts';
import type { Prepared } from './prepare.ts';
import { projectFolder } from './project.ts';

// Keeps the gateway and the agent running, each in a process of its own, so that they share neither memory nor crashes.
const log = (line: string) => process.stdout.write(`${line}\n`);
/** The time between a service's own stop deadline and SIGKILL. */
const stopGraceMs = 30_000;

const stopping = new AbortController();
const { signal } = stopping;
const stop = () => stopping.abort();
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, stop);
// If another process started this one, it stops when that process ends.
process.once('disconnect', stop);

/** Runs the set-up. Resolves with undefined if it is stopped meanwhile. */
const prepare = async (): Promise<Prepared | undefined> => {
  const child = spawn(process.execPath, [join(projectFolder, 'scripts/prepare.ts')], {
    cwd: projectFolder,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  let prepared: Prepared | undefined;
  child.once('message', (message) => {
    prepared = message as Prepared;
  });
  signal.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
  const [code] = await once(child, 'exit');
  if (signal.aborted) return undefined;
  if (prepared === undefined) process.exit(code ?? 1);
  return prepared;
};

const run = async ({ env, dataDir, gatewayUrl, stopMs }: Prepared): Promise<void> => {
  const common = { signal, stopMs: stopMs + stopGraceMs, log };
  const serving = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => serving.resolve(), { once: true });
  const keep = (part: Pick<PartOptions, 'name' | 'main' | 'env' | 'onServing'>) =>
    keepRunning({ ...common, ...part }).catch((error: Error) => {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = wrongConfigurationCode;
      stop();
    });
  const keepAgent = async () => {
    const page = process.env.CODEBOX_AGENT_PAGE || (await buildPageAside(dataDir, log));
    const url = process.env.CODEBOX_URL || gatewayUrl;
    const agentEnv = { ...process.env, CODEBOX_URL: url, ...(page && { CODEBOX_AGENT_PAGE: page }) };
    await serving.promise;
    await keep({ name: 'agent', main: 'services/agent/main.ts', env: agentEnv });
  };
  await Promise.all([
    keep({
      name: 'gateway',
      main: 'services/gateway/main.ts',
      env: { ...process.env, ...env },
      onServing: serving.resolve,
    }),
    process.env.CODEBOX_AGENT !== '0' && keepAgent(),
  ]);
};

const prepared = await prepare();
if (prepared) await run(prepared);
// A page that is still being built is discarded.
process.exit();
