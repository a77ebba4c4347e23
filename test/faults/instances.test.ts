import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Command, Execution } from '#contract';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { databaseUrl, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { processesOf } from '../contract/host-census.ts';
import { deploymentOf, takeBoxCensus } from './census.ts';
import { signalAll } from './processes.ts';
import { startRunning, ticking } from './running.ts';

describe.each(drivers)('instances that end behind the back of a gateway, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let deployment: string;
  let before: string[];
  const docker = driver === 'docker' ? createDaemon() : undefined;
  const census = () => takeBoxCensus(gateway, docker ? { docker } : {});

  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_SWEEP_SECONDS: '0.5',
      CODEBOX_RUN_GRACE_SECONDS: '0',
      CODEBOX_SILENCE_SECONDS: '3',
      CODEBOX_WARM_BOXES: '0',
    });
    deployment = await deploymentOf(gateway);
    before = await census();
  });
  afterAll(() => gateway?.dispose());

  const instanceOf = async (box: Box): Promise<string> => {
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const [row] = await store.instances.of(box.id);
    await store.close();
    return row?.id ?? '';
  };

  /** Kills all processes of an instance, and removes its container with Docker; its other resources stay. */
  const removeInstance = async (id: string): Promise<void> => {
    if (docker) {
      const container = docker.docker.getContainer(`codebox-${deployment}-${id}`);
      await docker.call(AbortSignal.timeout(60_000), () => container.remove({ force: true }));
      return;
    }
    signalAll((await processesOf(boxUser(id))).map(Number), 'SIGKILL');
  };

  test('in mid-run: the run is lost in its stream and its record, the box reports the cause, and nothing is left behind', async () => {
    const box = await gateway.createBox({ limits: { memoryMb: 320, diskMb: 64 } });
    const running = await startRunning(gateway, box.id, ticking(1000));
    await removeInstance(await instanceOf(box));
    const cause = { code: 'box_lost' };
    expect((await running.ended).at(-1)).toMatchObject({ type: 'done', status: 'lost', cause, stateLost: true });
    expect((await gateway.get<Execution>(running.location)).body).toMatchObject({ status: 'lost', cause });
    const { body } = await gateway.get<Box>(`/v1/boxes/${box.id}`);
    expect(body).toMatchObject({ state: 'lost', cause: { code: 'instance_lost' } });
    expect((await gateway.post(`/v1/boxes/${box.id}/executions`, { code: '1' })).status).toBe(410);
    await eventually(async () => (await census()).length === before.length);
    expect(await census()).toEqual(before);
  });

  test('a box server that is stopped for good in mid-run: runs and requests end as lost, the box reports the cause, and nothing is left behind', async () => {
    const box = await gateway.createBox({ limits: { memoryMb: 320, diskMb: 64 } });
    const running = await startRunning(gateway, box.id, ticking(1000));
    process.kill(await serverOf(await instanceOf(box)), 'SIGSTOP');
    const waiting = gateway.run(box.id, '1 + 1', { timeoutSeconds: 5 });
    const cause = { code: 'box_unresponsive' };
    expect((await running.ended).at(-1)).toMatchObject({ type: 'done', status: 'lost', cause, stateLost: true });
    expect(await waiting).toMatchObject({ status: 'lost', cause });
    const { body } = await gateway.get<Box>(`/v1/boxes/${box.id}`);
    expect(body).toMatchObject({ state: 'lost', cause: { code: 'unresponsive' } });
    expect((await gateway.post(`/v1/boxes/${box.id}/executions`, { code: '1' })).status).toBe(410);
    await eventually(async () => (await census()).length === before.length);
    expect(await census()).toEqual(before);
  });

  test('a box server that is stopped for a moment or starved by code: the box stays ready', async () => {
    const box = await gateway.createBox({ limits: { memoryMb: 320, diskMb: 64, cpus: 0.5 } });
    const server = await serverOf(await instanceOf(box));
    process.kill(server, 'SIGSTOP');
    const waiting = gateway.run(box.id, 'x = 1 + 1\nx');
    await sleep(1500);
    process.kill(server, 'SIGCONT');
    expect((await waiting).text).toBe('2');
    const burn = 'import os, time\nend = time.time() + 6\nfor _ in range(5): os.fork()\nwhile time.time() < end: pass';
    const burnt = await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, { argv: ['python3', '-c', burn] });
    expect(burnt.body).toMatchObject({ status: 'ok' });
    expect((await gateway.run(box.id, 'x')).text).toBe('2');
    await gateway.client.boxes.delete(box.id);
    expect(await census()).toEqual(before);
  });
});

/** Resolves with the process id, on this host, of the server of a box. */
const serverOf = async (instance: string): Promise<number> => {
  for (const pid of await processesOf(boxUser(instance))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    if (words.at(-2) === 'codebox_server' && words.includes('-m')) return Number(pid);
  }
  throw new Error('the box has no server');
};
