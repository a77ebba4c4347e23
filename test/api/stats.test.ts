import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, boxStatsEventSchema, boxStatsSchema } from '#contract';
import { anyDriver, drivers, eventually, mainDriver, type RunningGateway, startGateway } from './harness.ts';

const mebibyte = 1024 * 1024;
/** Python that allocates up to 8 GiB in steps: a single impossible allocation would fail without an OOM kill. */
const eat = "[b'x' * (64 << 20) for _ in range(128)]";

describe.each(drivers)('statistics on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  // Only the production driver has to end processes that have left their session.
  const testOnMain = mainDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_RUN_GRACE_SECONDS: '1',
      CODEBOX_SILENCE_SECONDS: '600',
    });
    box = await gateway.createBox({ limits: { memoryMb: 512, diskMb: 64, pids: 100, cpus: 1 } });
  });
  afterAll(() => gateway?.dispose());

  const path = (query = '') => `/v1/boxes/${box.id}/stats${query}`;
  const read = async () => boxStatsSchema.parse((await gateway.get(path())).body);

  test('statistics show the usage of a box against its limits, and follow its activity', async () => {
    await gateway.run(box.id, '1');
    const before = await read();
    expect(before).toMatchObject({
      cpu: { limitCpus: 1, limitMs: null },
      memory: { limitBytes: 512 * mebibyte },
      pids: { limit: 100 },
      oomKills: 0,
    });
    expect(before.disk?.limitBytes).toBeGreaterThan(32 * mebibyte);
    expect(before.disk?.limitBytes).toBeLessThanOrEqual(64 * mebibyte);
    const code = [
      'import subprocess, time',
      'held = b"x" * (100 << 20)',
      'open("big", "wb").write(bytes(16 << 20))',
      'sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]',
      'end = time.process_time() + 1',
      'while time.process_time() < end: pass',
    ].join('\n');
    expect((await gateway.run(box.id, code)).status).toBe('ok');
    const after = await read();
    expect(after.cpu.usedMs - before.cpu.usedMs).toBeGreaterThanOrEqual(900);
    expect(after.memory.usedBytes - before.memory.usedBytes).toBeGreaterThan(60 * mebibyte);
    expect(after.memory.peakBytes).toBeGreaterThanOrEqual(after.memory.usedBytes / 2);
    expect((after.disk?.usedBytes ?? 0) - (before.disk?.usedBytes ?? 0)).toBeGreaterThan(15 * mebibyte);
    expect(after.pids.count - before.pids.count).toBeGreaterThanOrEqual(4);
    await gateway.run(box.id, `b = ${eat}`);
    expect((await read()).oomKills).toBeGreaterThanOrEqual(1);
  });

  testOnce('a stream sends numbered samples at its interval, and ends with its box', async () => {
    const ended = await gateway.createBox();
    const response = await gateway.call(`/v1/boxes/${ended.id}/stats?everySeconds=0.5`, {
      headers: { accept: 'application/x-ndjson' },
    });
    let text = '';
    let deleted = false;
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      if (deleted || text.split('\n').length < 4) continue;
      deleted = true;
      await gateway.call(`/v1/boxes/${ended.id}`, { method: 'DELETE' });
    }
    const events = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => boxStatsEventSchema.parse(JSON.parse(line)));
    expect(events.length).toBeGreaterThanOrEqual(3);
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    const sse = await gateway.call(path('?everySeconds=0.5'), { headers: { accept: 'text/event-stream' } });
    const reader = sse.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toMatch(/^id: 1\nevent: stats\ndata: \{/);
    await reader?.cancel();
  });

  testOnce('an invalid interval is a 400, a missing box a 404, and an ended one a 410', async () => {
    for (const pause of ['0', '61', 'x']) {
      const refused = await gateway.get<{ errors: { pointer: string }[] }>(path(`?everySeconds=${pause}`));
      expect(refused.status).toBe(400);
      expect(refused.body.errors[0]?.pointer).toBe('/query/everySeconds');
    }
    expect((await gateway.get('/v1/boxes/box-aaaaaaaaaaaaaaaaaaaaaaaaaa/stats')).status).toBe(404);
    const ended = await gateway.createBox();
    await gateway.call(`/v1/boxes/${ended.id}`, { method: 'DELETE' });
    expect((await gateway.get(`/v1/boxes/${ended.id}/stats`)).status).toBe(410);
  });

  test('a box whose processes have ended is a 410 for statistics and for runs with a CPU limit', async () => {
    const make = () => gateway.createBox({ limits: { cpuSeconds: 60 } });
    const [dead, other] = await Promise.all([make(), make()]);
    expect(boxStatsSchema.parse((await gateway.get(`/v1/boxes/${dead.id}/stats`)).body).cpu.usedMs).toBeLessThan(
      10_000,
    );
    // No request follows the command, so that only the next request detects the death.
    const command = 'exec > /dev/null 2>&1; sleep 2; kill -KILL $PPID';
    for (const { id } of [dead, other]) await gateway.post(`/v1/boxes/${id}/commands`, { command, detach: true });
    const refusal = await eventually(async () => {
      const { status } = await gateway.get(`/v1/boxes/${dead.id}/stats`);
      return ![200, 503].includes(status) && status;
    });
    expect(refusal).toBe(410);
    const refused = await eventually(async () => {
      const { status } = await gateway.post(`/v1/boxes/${other.id}/executions`, { code: '1' });
      return ![200, 503].includes(status) && status;
    });
    expect(refused).toBe(410);
  });

  testOnce('reading statistics does not keep a box active', async () => {
    const idle = await gateway.createBox({ idleSeconds: 2 });
    await eventually(async () => (await gateway.get(`/v1/boxes/${idle.id}/stats`)).status === 410);
  });

  test('metrics contain sums by template and no box ids', async () => {
    const metrics = await (await gateway.call('/metrics')).text();
    for (const name of ['sampled', 'cpu_seconds', 'memory_bytes', 'pids', 'oom_kills']) {
      expect(metrics).toMatch(new RegExp(`^codebox_boxes_${name}\\{template="python"\\} \\d`, 'm'));
    }
    expect(metrics).not.toContain(box.id);
  });

  testOnMain(
    'runs side by side that exceed the CPU limit of their box together are stopped, and its files stay',
    async () => {
      const shared = await gateway.createBox({ limits: { cpuSeconds: 4, cpus: 2 } });
      await gateway.run(shared.id, 'open("kept.txt", "w").write("kept")');
      const loops = Array.from({ length: 4 }, () =>
        gateway.post(`/v1/boxes/${shared.id}/commands`, { command: 'while :; do :; done', timeoutSeconds: 90 }),
      );
      for (const { body } of await Promise.all(loops)) expect(body).toMatchObject({ cause: { code: 'cpu_limit' } });
      await sleep(3000);
      expect((await gateway.get<Box>(`/v1/boxes/${shared.id}`)).body.state).toBe('ready');
      expect(await (await gateway.call(`/v1/boxes/${shared.id}/files/kept.txt`)).text()).toBe('kept');
    },
  );

  testOnMain('a box that continues beyond its CPU limit is deleted with that cause', async () => {
    const wild = await gateway.createBox({ limits: { cpuSeconds: 1, cpus: 2 } });
    // Its box server cannot stop it.
    const loop = 'setsid -f sh -c "while :; do :; done"';
    const command = `${loop}; ${loop}; kill -STOP $PPID; sleep 60`;
    const begun = gateway.post(`/v1/boxes/${wild.id}/commands`, { command }).catch(() => undefined);
    const ended = await eventually(async () => {
      const { body } = await gateway.get<Box>(`/v1/boxes/${wild.id}`);
      return body.state !== 'ready' && body;
    }, 200_000);
    expect(ended.cause?.code).toBe('cpu_limit');
    await begun;
  });

  testOnce(
    'a box server that stops reporting blocks no caller: runs, commands and installations end as lost',
    async () => {
      const silent = await gateway.createBox();
      const byRun = async () => {
        // The box server is stopped after it has reported the start, so it neither ends the run nor reports anything.
        const code = 'import os, signal, time\ntime.sleep(1)\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)';
        const lost = await gateway.run(silent.id, code, { timeoutSeconds: 3 });
        expect(lost).toMatchObject({ status: 'lost', cause: { code: 'no_end' }, stateLost: true });
        const stats = boxStatsSchema.parse((await gateway.get(`/v1/boxes/${silent.id}/stats`)).body);
        expect(stats.disk).toBeNull();
      };
      const byCommand = async () => {
        const stopped = await gateway.createBox();
        const command = 'sleep 1; kill -STOP $PPID; sleep 60';
        const ended = await gateway.post(`/v1/boxes/${stopped.id}/commands`, { command, timeoutSeconds: 3 });
        expect(ended.body).toMatchObject({ status: 'lost', cause: { code: 'no_end' } });
      };
      const byInstallation = async () => {
        const blocked = await gateway.createBox();
        // The installer waits for a pipe that has no writer.
        const wheel = 'waits-1.0-py3-none-any.whl';
        const stop = `mkfifo ${wheel}; sleep 4; kill -STOP $PPID; sleep 60`;
        await gateway.post(`/v1/boxes/${blocked.id}/commands`, { command: stop, detach: true });
        const install = { packages: [`./${wheel}`], timeoutSeconds: 6 };
        const installed = await gateway.post(`/v1/boxes/${blocked.id}/packages`, install);
        expect(installed.body).toMatchObject({ status: 'lost', cause: { code: 'no_end' } });
      };
      // All three mostly wait, so they run concurrently.
      await Promise.all([byRun(), byCommand(), byInstallation()]);
    },
  );
});
