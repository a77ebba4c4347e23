import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#contract';
import { type StoreServer, startS3 } from '../blobs/servers.ts';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, refusal, startGateways } from './harness.ts';
import { type Link, openLink } from './link.ts';

describe.each(anyDriver)('boxes at rest in a bucket that stalls, on the %s driver', (driver) => {
  let bucket: StoreServer;
  let link: Link;
  let gateways: [GatewayProcess, GatewayProcess];
  let client: Client;
  let database: pg.Client;
  beforeAll(async () => {
    bucket = await startS3();
    link = await openLink(`http://127.0.0.1:${bucket.port}`);
    gateways = (await startGateways(driver, 2, {
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_BLOBS: `s3+${link.url}/codebox/boxes`,
      AWS_ACCESS_KEY_ID: 'S3RVER',
      AWS_SECRET_ACCESS_KEY: 'S3RVER',
    })) as [GatewayProcess, GatewayProcess];
    client = gateways[0].client;
    database = new pg.Client({ connectionString: await databaseUrl(gateways[0].dataDir) });
    database.on('error', () => {});
    await database.connect();
  });
  afterAll(async () => {
    link?.speak();
    await database?.end();
    await gateways?.[0]?.dispose();
    await link?.[Symbol.asyncDispose]();
    await bucket?.[Symbol.asyncDispose]();
  });

  const instancesOf = async (box: string): Promise<string[]> =>
    (await database.query('select state from instances where box_id = $1', [box])).rows.map(({ state }) => state);
  const blobsOf = async (box: string): Promise<number> =>
    (await database.query('select from blobs where box_id = $1', [box])).rows.length;
  /** Expires the lease of the task on a box. */
  const endLease = (box: string) =>
    database.query("update boxes set task_until = now() - interval '1 s' where id = $1 and task is not null", [box]);
  const read = 'open("kept").read()[:4]';
  const keep = async (gateway: GatewayProcess): Promise<string> => {
    const { id } = await gateway.createBox();
    await gateway.run(id, 'import random; _ = open("kept", "w").write("kept" + random.randbytes(500_000).hex())');
    await gateway.client.boxes.hibernate(id);
    return id;
  };

  test('a stalled blob store takes no capacity, blocks no caller, and is reported as degraded', async () => {
    const [gateway] = gateways;
    const [kept, { id: awake }] = await Promise.all([keep(gateway), gateway.createBox()]);
    await eventually(async () => (await instancesOf(kept)).length === 0);
    link.silence();
    const ready = await gateway.get('/readyz');
    expect(ready).toMatchObject({ status: 200, body: { status: 'ok', degraded: { blobs: expect.any(String) } } });
    const use = () => refusal(client.executions.run(kept, { code: read }, { idempotencyKey: false }));
    let isOver = false;
    const over = Promise.all([use(), refusal(client.boxes.hibernate(awake))]).finally(() => {
      isOver = true;
    });
    const seen: string[] = [];
    for (; !isOver; await sleep(20)) seen.push(...(await instancesOf(kept)));
    for (const refused of await over) expect(refused.code).toBe('unavailable');
    expect(seen).toEqual([]);
    expect((await gateway.run(awake, '1')).text).toBe('1');
    // The box is retried only after a pause, even if the store has recovered.
    link.speak();
    const again = await use();
    expect([again.code, again.retryAfterSeconds]).toEqual(['unavailable', expect.any(Number)]);
    await eventually(async () => (await gateway.get<{ degraded?: unknown }>('/readyz')).body.degraded === undefined);
    await eventually(() =>
      client.executions.run(kept, { code: read }).then(
        ({ text }) => text === "'kept'",
        () => false,
      ),
    );
  });

  test('use of a box cancels its hibernation', async () => {
    const [gateway] = gateways;
    const { id } = await gateway.createBox();
    await gateway.run(id, 'x = 41; import os; _ = open("large", "wb").write(os.urandom(1_000_000))');
    link.silenceOnceSent(500_000);
    const refused = refusal(client.boxes.hibernate(id));
    await eventually(async () => link.isSilent());
    expect((await gateway.run(id, 'x + 1')).text).toBe('42');
    expect((await refused).code).toBe('conflict');
    link.speak();
    expect((await client.boxes.read(id)).state).toBe('ready');
    await client.boxes.delete(id);
    await eventually(async () => (await blobsOf(id)) === 0);
  });

  test('a gateway killed during a transfer of files loses none', async () => {
    const [other, doomed] = gateways;
    const { id } = await doomed.createBox();
    await doomed.run(id, 'x = 41; import os; _ = open("large", "wb").write(os.urandom(1_000_000))');
    const hash = 'import hashlib; hashlib.file_digest(open("large", "rb"), "sha256").hexdigest()';
    const before = (await doomed.run(id, hash)).text;
    const killed = async (call: Promise<unknown>) => {
      const cut = call.catch(() => undefined);
      await eventually(async () => link.isSilent());
      await doomed.kill('SIGKILL');
      await cut;
      link.speak();
      await endLease(id);
    };
    link.silenceOnceSent(500_000);
    await killed(doomed.client.boxes.hibernate(id));
    expect((await client.boxes.read(id)).state).toBe('ready');
    expect((await other.run(id, 'x')).text).toBe('41');

    await doomed.restart();
    await doomed.client.boxes.hibernate(id);
    link.silence(500_000);
    await killed(doomed.client.boxes.resume(id));
    expect((await other.run(id, hash)).text).toBe(before);
    await doomed.restart();
    await client.boxes.delete(id);
    await eventually(async () => (await blobsOf(id)) === 0);
  });

  test('a gateway that was suspended while another restored a box does not end that box', async () => {
    const [away, other] = gateways;
    const box = await keep(away);
    link.silence(100_000);
    const cut = away.client.boxes.resume(box).catch(() => undefined);
    await eventually(async () => link.isSilent());
    process.kill(away.pid(), 'SIGSTOP');
    try {
      await database.query("update boxes set task_until = now() - interval '1 s' where id = $1", [box]);
      link.speak();
      const run = () => other.client.executions.run(box, { code: read }, { idempotencyKey: false });
      expect((await eventually(() => run().catch(() => undefined), 60_000)).text).toBe("'kept'");
    } finally {
      process.kill(away.pid(), 'SIGCONT');
    }
    await cut;
    await eventually(async () => (await instancesOf(box)).length === 1);
    expect((await away.run(box, read)).text).toBe("'kept'");
    expect(await instancesOf(box)).toEqual(['running']);
  });
});
