import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution, Problem } from '#contract';
import { testFolder } from '../../scripts/project.ts';
import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from '../../scripts/test-daemon.ts';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';
import { drivers, eventually, type GatewayProcess, startGatewayProcess } from '../api/harness.ts';
import { takeBoxCensus } from './census.ts';
import { startRunning, ticking } from './running.ts';

const image = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';
const small = { limits: { memoryMb: 512, diskMb: 64 } };

/** A busy machine takes minutes for the gigabyte. */
const copyMs = 540_000;

/** Kept between runs: copying the image takes longer than most of the tests. */
const dataRoot = join(testFolder, 'second-daemon');

/** Copies the image of boxes from one daemon to another that does not have it yet, and removes the other's earlier images. */
const copyImage = async (from: ReturnType<typeof createDaemon>, to: ReturnType<typeof createDaemon>): Promise<void> => {
  const signal = AbortSignal.timeout(copyMs);
  const wanted = await from.call(signal, (docker) => docker.getImage(image).inspect());
  const found = await to.call(signal, (docker) => docker.listImages());
  if (found.some(({ Id, RepoTags }) => Id === wanted.Id && RepoTags?.includes(image))) return;
  for (const { Id } of found) await to.call(signal, (docker) => docker.getImage(Id).remove({ force: true }));
  const saved = await from.call(signal, (docker) => docker.getImage(image).get(), copyMs);
  const loading = await to.call(signal, (docker) => docker.loadImage(saved), copyMs);
  await new Promise<void>((done, failed) => {
    to.docker.modem.followProgress(loading, (error) => (error ? failed(error) : done()));
  });
};

describe.each(drivers.filter((name) => name === 'docker'))('a separate daemon for %s', (driver) => {
  let folder: string;
  let daemon: TestDaemon;
  let gateway: GatewayProcess;
  let before: string[];

  const start = async (settings: TestDaemonOptions['settings']) => {
    daemon = await startTestDaemon(folder, { ownNetwork: true, dataRoot, ...(settings && { settings }) });
  };
  const census = () => takeBoxCensus(gateway, { docker: createDaemon(daemon.host) });
  const readiness = async () => {
    const response = await fetch(`${gateway.url}/readyz`, { signal: AbortSignal.timeout(20_000) });
    return { status: response.status, body: (await response.json()) as Problem };
  };
  const isLiveRestored = async () => {
    const info = await createDaemon(daemon.host).call(AbortSignal.timeout(20_000), (docker) => docker.info());
    return (info as { LiveRestoreEnabled: boolean }).LiveRestoreEnabled;
  };
  const isReady = async () => (await readiness()).status === 200;
  const createBoxes = (count: number) => Promise.all(Array.from({ length: count }, () => gateway.createBox(small)));
  const deleteAll = async () => {
    for await (const box of gateway.client.boxes.list()) await gateway.client.boxes.delete(box.id);
    await expectNothingLeft();
  };
  const expectNothingLeft = async () => {
    await eventually(async () => (await census()).length === before.length, 90_000);
    expect(await census()).toEqual(before);
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'codebox-dockerd-'));
    await start({ 'live-restore': true });
    await copyImage(createDaemon(), createDaemon(daemon.host));
    gateway = await startGatewayProcess(driver, {
      CODEBOX_SWEEP_SECONDS: '1',
      DOCKER_HOST: daemon.host,
      CODEBOX_BOX_IMAGE: image,
    });
    before = await census();
  });
  afterAll(async () => {
    await gateway?.dispose();
    await daemon?.stop();
    // The daemon leaves bind mounts in its folders.
    for (const line of (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').reverse()) {
      const point = line.split(' ')[4] ?? '';
      if ([folder, dataRoot].some((parent) => point.startsWith(`${parent}/`))) await runHostCommand(['umount', point]);
    }
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  test('that hangs: requests that need it are refused in time, boxes keep serving, and it is used again once it continues', async () => {
    const box = await gateway.createBox(small);
    await gateway.run(box.id, 'x = 41');
    process.kill(daemon.pid, 'SIGSTOP');
    try {
      const refused = await gateway.post<Problem>('/v1/boxes', {});
      expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      const { status, body } = await eventually(async () => {
        const ready = await readiness();
        return ready.body.detail === 'The Docker daemon does not respond.' && ready;
      }, 60_000);
      expect([status, body.code]).toEqual([503, 'unavailable']);
      expect((await gateway.run(box.id, 'x + 1')).text).toBe('42');
    } finally {
      process.kill(daemon.pid, 'SIGCONT');
    }
    await eventually(isReady, 60_000);
    expect(gateway.output()).toContain('the backend of the driver responds again');
    await deleteAll();
  });

  test('that is killed with live-restore on: runs continue to their ends', async () => {
    const boxes = await createBoxes(2);
    const untilGo = 'import os\nwhile not os.path.exists("go"): time.sleep(0.1)';
    const runs = await Promise.all(boxes.map(({ id }) => startRunning(gateway, id, `${ticking(5)}\n${untilGo}`)));
    process.kill(daemon.pid, 'SIGKILL');
    // Its containerd dies with it; without its pid file the next daemon does not wait for that process to be reaped.
    await rm(join(folder, 'run/containerd/containerd.pid'), { force: true });
    await eventually(async () => !(await isReady()));
    await start({ 'live-restore': true });
    await eventually(isReady, 60_000);
    for (const { id } of boxes) await gateway.call(`/v1/boxes/${id}/files/go`, { method: 'PUT' });
    for (const { ended } of runs) expect((await ended).at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    for (const { id } of boxes) expect((await gateway.run(id, 'open("runs").read()')).text).toBe("'r'");
    // Docker 20 loses the reference counts of volumes: some can be removed only after its next start.
    for (const { id } of boxes) await gateway.client.boxes.delete(id).catch(() => {});
  });

  test('that restarts and ends its containers: runs are lost with their cause, in their streams and records', async () => {
    // From here on, containers end with the daemon.
    await writeFile(join(folder, 'daemon.json'), '{"live-restore": false}');
    process.kill(daemon.pid, 'SIGHUP');
    await eventually(async () => !(await isLiveRestored()));
    const boxes = await createBoxes(5);
    const runs = await Promise.all(boxes.map(({ id }) => startRunning(gateway, id, ticking(1000))));
    await daemon.stop();
    await start({});
    const cause = { code: 'box_lost' };
    for (const [index, { ended, location }] of runs.entries()) {
      expect((await ended).at(-1)).toMatchObject({ type: 'done', status: 'lost', cause, stateLost: true });
      expect((await gateway.get<Execution>(location)).body).toMatchObject({ status: 'lost', cause });
      const { body } = await gateway.get<Box>(`/v1/boxes/${boxes[index]?.id}`);
      expect(body).toMatchObject({ state: 'lost', cause: { code: 'instance_lost' } });
    }
    await eventually(isReady, 60_000);
    const next = await gateway.createBox(small);
    expect((await gateway.run(next.id, '1 + 1')).text).toBe('2');
    await deleteAll();
  });
});
