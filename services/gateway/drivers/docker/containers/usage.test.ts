import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ContainerInspectInfo } from 'dockerode';
import { expect, onTestFinished, test } from 'vitest';
import { createDaemon } from '../daemon/daemon.ts';
import { containerUsage } from './usage.ts';

test('a hanging request for container stats is aborted once no caller waits for it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-usage-'));
  const server = createServer(() => {}).listen(join(folder, 'daemon'));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true, force: true });
  });
  const asked = once(server, 'request');
  const over = new AbortController();
  // It has no process, and so no control group that could be read instead.
  const found = { Id: 'hanging', State: { Pid: 0 } } as ContainerInspectInfo;
  const usage = containerUsage(createDaemon(`unix://${folder}/daemon`), found, over.signal);
  const [request] = await asked;
  over.abort();
  await expect(usage).rejects.toMatchObject({ code: 'unavailable' });
  await once(request.socket, 'close');
});
