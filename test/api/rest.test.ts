import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type BoxStats, type Client, type Execution, hasCode } from '#contract';
import { chooseDriver } from '../../services/gateway/composition/choose-driver.ts';
import { readConfig } from '../../services/gateway/config.ts';
import {
  anyDriver,
  databaseUrl,
  drivers,
  eventually,
  type GatewayProcess,
  refusal,
  startGatewayProcess,
} from './harness.ts';

const tree = await readFile(new URL('rest-tree.py', import.meta.url), 'utf8');

describe.each(drivers)('boxes at rest on the %s driver', (driver) => {
  // The gateway decides what counts as use and what becomes of stored files, so one driver suffices for these tests.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  let client: Client;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, {
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_CHECKPOINT_SECONDS: '0.5',
      CODEBOX_MAX_BOXES: '10',
      CODEBOX_WARM_BOXES: '1',
    });
    client = gateway.client;
  });
  afterAll(() => gateway?.dispose());
  // The boxes of a failed test must not take the capacity of the others.
  afterEach(async () => {
    for await (const { id } of client.boxes.list()) await client.boxes.delete(id);
  });

  const text = async (box: string, code: string) => (await gateway.run(box, code)).text;
  const read = (box: string) => client.boxes.read(box);
  const untilIs = (box: string, state: Box['state']) => eventually(async () => (await read(box)).state === state);
  const end = (...boxes: Box[]) => Promise.all(boxes.map(({ id }) => client.boxes.delete(id)));
  const query = async (text: string, ...values: string[]) => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    const { rows } = await database.query(text, values);
    await database.end();
    return rows;
  };
  /** The blobs of a box, or of all of them. */
  const blobs = async (box = ''): Promise<string[]> =>
    (await readdir(join(gateway.dataDir, 'blobs'), { recursive: true }).catch(() => [])).filter((path) =>
      path.includes(`${box}/task-`),
    );

  test('a paused box keeps its variables, uses no CPU time, and resumes on use', async () => {
    const { boxes, executions } = client;
    const { id } = await gateway.createBox();
    // The thread uses a fifth of a CPU: a busier one would starve everything else in its kernel.
    const spin =
      'import threading, time\ndef spin():\n  while True: sum(range(20_000)); time.sleep(0.002)\n' +
      'threading.Thread(target=spin, daemon=True).start()';
    await gateway.run(id, `x = 41\n${spin}`);
    const untilGo = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.05)';
    const running = await executions.start(id, { code: untilGo });
    const refused = await refusal(boxes.pause(id));
    expect(refused).toMatchObject({ reason: 'code_running', message: expect.stringContaining(running.id) });
    await client.files.write(id, 'go', '');
    await eventually(async () => (await executions.read(id, running.id)).status === 'ok');
    expect(await boxes.pause(id)).toMatchObject({ id, state: 'paused' });
    const before: BoxStats = await boxes.stats(id);
    await sleep(1000);
    expect((await boxes.stats(id)).cpu.usedMs - before.cpu.usedMs).toBeLessThan(20);
    // Neither statistics nor a keepalive resume it, and pausing it again has no effect.
    expect(await boxes.keepalive(id)).toMatchObject({ state: 'paused' });
    expect(await boxes.pause(id)).toMatchObject({ state: 'paused' });
    expect(await text(id, 'x + 1')).toBe('42');
    expect(await read(id)).toMatchObject({ state: 'ready', continuity: 'reused' });
    expect(await boxes.pause(id)).toMatchObject({ state: 'paused' });
    expect(await boxes.resume(id)).toMatchObject({ state: 'ready' });
    expect(await text(id, 'x')).toBe('41');
    await boxes.delete(id);
  });

  test('a hibernated box is restored with every file byte for byte and its environment, and reports that', async () => {
    const box = await gateway.createBox({ user: 'ada', reuse: true, env: { TOKEN: 'a\'b"c' } });
    await client.files.write(box.id, 'tree.py', tree);
    const old = await gateway.run(box.id, 'x = 41; x');
    const made = await client.commands.run(box.id, { command: 'python3 tree.py make' });
    expect(made.stdout).toMatch(/^\d{3} [0-9a-f]{64}\n$/);
    expect(await client.boxes.hibernate(box.id)).toMatchObject({
      state: 'hibernated',
      checkpoint: { sizeBytes: expect.any(Number) },
    });
    expect(await blobs(box.id)).toHaveLength(1);
    expect(hasCode(await refusal(client.boxes.stats(box.id)), 'conflict', 'box_hibernated')).toBe(true);
    // Records can be read without restoring the box.
    expect(await client.executions.read(box.id, old.id)).toMatchObject({ status: 'ok' });
    expect(await read(box.id)).toMatchObject({ state: 'hibernated' });

    const back = await gateway.post<Box>('/v1/boxes', { user: 'ada', reuse: true });
    expect([back.status, back.body]).toMatchObject([200, { id: box.id, state: 'ready', continuity: 'restored' }]);
    const shown = await client.commands.run(box.id, { command: 'python3 tree.py show' });
    expect(shown.stdout).toBe(made.stdout);
    const first = await gateway.run(box.id, 'import os; (os.environ["TOKEN"], "x" in dir())');
    expect([first.text, first.executionCount]).toEqual([`('a\\'b"c', False)`, 1]);
    await client.boxes.delete(box.id);
    await eventually(async () => (await blobs()).length === 0);
  });

  testOnce(
    'an idle box is deleted, paused or hibernated as set, while terminals, watches, ports, runs and commands keep it active',
    async () => {
      const make = (onIdle: string, idleSeconds: number) => gateway.createBox({ onIdle, idleSeconds });
      const held = await Promise.all(
        ['hibernate', 'pause', 'delete', 'hibernate', 'delete'].map((onIdle) => make(onIdle, 600)),
      );
      const [typed, watched, served, busy, working] = held as [Box, Box, Box, Box, Box];
      const terminal = await client.terminals.open(typed.id);
      const left = new AbortController();
      const watch = client.files.watch(watched.id, { signal: left.signal });
      await watch.next();
      const slow =
        'import socket, time\nc = socket.create_server(("127.0.0.1", 5000)).accept()[0]\nc.recv(9000)\n' +
        'c.send(b"HTTP/1.1 200 OK\\r\\n\\r\\nx")\ntime.sleep(3600)';
      await client.files.write(served.id, 'slow.py', slow);
      // The server is started by a run that ends, so that only the traffic of its port counts as use.
      await gateway.run(served.id, 'import subprocess; _ = subprocess.Popen(["python3", "slow.py"])');
      const job = await client.commands.start(working.id, { command: 'sleep 3600' });
      const response = await eventually(async () => {
        const got = await client.ports.fetch(served.id, 5000, '/');
        return got.ok && got;
      });
      await gateway.run(busy.id, 'x = 41');
      const run = await client.executions.start(busy.id, {
        code: 'import time; time.sleep(3600)',
        timeoutSeconds: 3600,
      });
      for (const { id } of held) await client.boxes.update(id, { idleSeconds: 1 });

      const idle = await Promise.all(['delete', 'pause', 'hibernate'].map((onIdle) => make(onIdle, 600)));
      const [deleted, paused, hibernated] = idle as [Box, Box, Box];
      await client.files.write(hibernated.id, 'kept', 'kept');
      for (const { id } of idle) await client.boxes.update(id, { idleSeconds: 1 });
      await Promise.all([
        untilIs(deleted.id, 'deleted'),
        untilIs(paused.id, 'paused'),
        untilIs(hibernated.id, 'hibernated'),
      ]);
      const states = await Promise.all(held.map(async ({ id }) => (await read(id)).state));
      expect(states).toEqual(['ready', 'ready', 'ready', 'ready', 'ready']);
      expect(await client.files.readText(hibernated.id, 'kept')).toBe('kept');
      terminal.close();
      left.abort();
      await response.body?.cancel();
      await client.executions.interrupt(busy.id, run.id);
      await client.commands.delete(working.id, job.id);
      await Promise.all([
        untilIs(watched.id, 'paused'),
        untilIs(busy.id, 'hibernated'),
        untilIs(working.id, 'deleted'),
      ]);
    },
  );

  testOnce('a running command keeps its box active, also after the gateway that started it has died', async () => {
    const make = () => gateway.createBox({ onIdle: 'pause', idleSeconds: 600 });
    const [working, idle] = await Promise.all([make(), make()]);
    const job = await client.commands.start(working.id, { command: 'sleep 3600' });
    await gateway.kill('SIGKILL');
    await gateway.restart();
    for (const { id } of [working, idle]) await client.boxes.update(id, { idleSeconds: 1 });
    await untilIs(idle.id, 'paused');
    expect((await read(working.id)).state).toBe('ready');
    await client.commands.delete(working.id, job.id);
    await untilIs(working.id, 'paused');
    await end(working, idle);
  });

  testOnce('the hibernation of a box that is deleted meanwhile is refused as gone', async () => {
    const box = await gateway.createBox();
    const refused = refusal(client.boxes.hibernate(box.id));
    await eventually(
      async () => (await query('select from boxes where id = $1 and task is not null', box.id)).length > 0,
    );
    await end(box);
    expect((await refused).code).toBe('gone');
  });

  test('a lost instance is replaced by one with the files of the last checkpoint', async () => {
    const box = await gateway.createBox({ onIdle: 'hibernate', idleSeconds: 600 });
    await gateway.run(box.id, 'x = 41; _ = open("kept", "w").write("kept")');
    await eventually(async () => (await read(box.id)).checkpoint !== null);
    const config = readConfig({ CODEBOX_DATA_DIR: gateway.dataDir, CODEBOX_DRIVER: driver });
    const [deployment] = await query('select id from deployments');
    const instances = await chooseDriver(config, deployment.id);
    const [row] = await query('select id from instances where box_id = $1', box.id);
    // Two runs detect the loss: the second must not restore the files again.
    const other = await client.contexts.create(box.id, { language: 'python' });
    const sleeping = [{}, { context: other.id }].map((where) =>
      gateway.run(box.id, 'import time; time.sleep(600)', { ...where, timeoutSeconds: 900 }),
    );
    await eventually(async () => {
      const { items } = (await gateway.get<{ items: Execution[] }>(`/v1/boxes/${box.id}/executions`)).body;
      return items.filter(({ startedAt, status }) => status === 'running' && startedAt).length === 2;
    });
    await instances.destroy(row?.id ?? '', AbortSignal.timeout(60_000));
    const lost = { status: 'lost', cause: { code: 'box_lost' } };
    expect(await Promise.all(sleeping)).toMatchObject([lost, lost]);
    expect(await text(box.id, 'open("kept").read(), "x" in dir()')).toBe("('kept', False)");
    expect(await read(box.id)).toMatchObject({ state: 'ready', continuity: 'restored' });
    await end(box);
  });

  testOnce('a failed hibernation leaves the box running, and a failed restore loses no files', async () => {
    const box = await gateway.createBox();
    await gateway.run(box.id, 'x = 41; _ = open("kept", "w").write("kept")');
    await client.boxes.checkpoint(box.id);
    const [first = ''] = await blobs(box.id);
    const folder = join(gateway.dataDir, 'blobs', first, '..');
    await rename(folder, `${folder}.away`);
    await writeFile(folder, 'in the way');
    expect((await refusal(client.boxes.hibernate(box.id))).code).toBe('unavailable');
    expect(await text(box.id, 'x')).toBe('41');
    await rm(folder);
    await rename(`${folder}.away`, folder);

    await client.boxes.hibernate(box.id);
    await eventually(async () => (await blobs(box.id)).length === 1);
    await rename(folder, `${folder}.away`);
    expect((await refusal(client.executions.run(box.id, { code: '1' }, { idempotencyKey: false }))).code).toBe(
      'unavailable',
    );
    expect((await read(box.id)).state).toBe('hibernated');
    await rename(`${folder}.away`, folder);
    // The restore is retried only after some seconds.
    expect(await eventually(() => text(box.id, 'open("kept").read()').catch(() => undefined))).toBe("'kept'");
    await end(box);
  });

  testOnce('the maximum lifetime ends a box at rest and removes its files', async () => {
    const boxes = await Promise.all([gateway.createBox(), gateway.createBox()]);
    const [frozen, kept] = boxes;
    await Promise.all([client.boxes.pause(frozen.id), client.boxes.hibernate(kept.id)]);
    for (const { id } of boxes) await client.boxes.update(id, { maxLifetimeSeconds: 1 });
    for (const { id } of boxes) {
      await untilIs(id, 'deleted');
      expect(await read(id)).toMatchObject({ cause: { code: 'expired' }, checkpoint: null });
    }
    await eventually(async () => (await blobs()).length === 0);
  });
});
