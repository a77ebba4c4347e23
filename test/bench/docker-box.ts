import { mkdtemp, rm } from 'node:fs/promises';
import { connectToSocket } from './box-socket.ts';
import { until } from './deadline.ts';
import { mustRun, runProgram } from './program.ts';

const startMs = 60_000;
const token = 'the-token-of-the-bench';

/** Measures the milliseconds from `docker run` of the box image to the first result of its kernel, without a gateway. */
export const timeDockerBox = async (image: string): Promise<number> => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp('/tmp/codebox-bench-box-');
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await mustRun(['chmod', '0777', folder]);
  const name = folder.slice('/tmp/'.length);
  stack.defer(async () => void (await runProgram(['docker', 'rm', '--force', name])));
  const startedAt = performance.now();
  await mustRun([
    ...['docker', 'run', '--detach', '--name', name, '--network', 'none', '--user', '1000:1000'],
    ...['--cpus', '1', '--memory', '1g', '--tmpfs', '/mnt:uid=1000,gid=1000,exec'],
    ...['--volume', `${folder}:/run/codebox`],
    ...['--env', 'CODEBOX_INSTANCE=i-bench', '--env', `CODEBOX_TOKEN=${token}`, '--env', 'CODEBOX_ROOT=/mnt', image],
  ]);
  const socket = stack.use(connectToSocket(`${folder}/box.sock`, token));
  // Requests fail until the server listens, so they are retried.
  const events = await until('the first result', () => socket.execute('1+1').catch(() => undefined), {
    withinMs: startMs,
    everyMs: 5,
  });
  if (!/"text\/plain":"2"/.test(events)) throw new Error('1+1 did not result in 2');
  return performance.now() - startedAt;
};
