import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Client, Problem, Volume } from '#contract';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, refusal, startGatewayProcess } from './harness.ts';
import { adminKey, endTenants, makeTenant } from './operator.ts';

// The contract of the drivers tests the volumes of each; these tests are about what the gateway makes of them.
describe.each(anyDriver.filter((driver) => driver === 'local'))('volumes on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let client: Client;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, {
      CODEBOX_ADMIN_KEY: adminKey,
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_WARM_BOXES: '1',
    });
    client = gateway.client;
  });
  afterAll(async () => {
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  const sizeMb = 16;
  const sh = (box: Pick<Box, 'id'>, command: string) => client.commands.run(box.id, { command });
  const printed = async (box: Pick<Box, 'id'>, command: string) => (await sh(box, command)).stdout;
  const disks = () => readdir(join(gateway.dataDir, 'local/volumes'));
  const query = async (text: string, ...values: string[]) => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    await database.query(text, values).finally(() => database.end());
  };
  const end = async (...boxes: Box[]) => void (await Promise.all(boxes.map(({ id }) => client.boxes.delete(id))));

  test('several boxes, warm or not, share what is in a volume, and one that may only read it cannot write', async () => {
    const volume = await client.volumes.create({ name: 'shared', sizeMb });
    const create = (more: object = {}) => gateway.createBox({ volumes: [{ volume: 'shared', ...more }] });
    const one = await create();
    expect(one.volumes).toEqual([{ volume: volume.id, name: 'shared', path: '/volumes/shared', readOnly: false }]);
    await gateway.run(one.id, 'open("/volumes/shared/a", "w").write("from a kernel")');
    const two = await gateway.createBox({ volumes: [{ volume: volume.id, path: '/volumes/here' }] });
    const reader = await create({ readOnly: true });
    expect(await printed(two, 'cat /volumes/here/a')).toBe('from a kernel');
    // The file API follows links in the working folder.
    await sh(two, 'ln -s /volumes/here here');
    await client.files.write(two.id, 'here/new/uploaded', 'by the API');
    const file = '/volumes/shared/new/uploaded';
    expect(await printed(one, `cat ${file}`)).toBe('by the API');
    expect(await sh(reader, `cat ${file}; echo x > ${file}`)).toMatchObject({
      status: 'error',
      stdout: 'by the API',
      stderr: expect.stringContaining('Read-only file system'),
    });
    const full = await sh(two, 'head -c 32M /dev/zero > /volumes/here/zero; rm /volumes/here/zero');
    expect(full.stderr).toContain('No space left on device');
    await end(one, two, reader);
    const later = await create();
    expect(await printed(later, 'ls /volumes/shared')).toBe('a\nnew\n');
    await end(later);
  });

  test('a volume is mounted in a warm box before it is handed out', async () => {
    await client.volumes.create({ name: 'late', sizeMb });
    const box = await eventually(async () => {
      const made = await gateway.createBox({ volumes: [{ volume: 'late' }] });
      if (made.startup?.kind === 'warm') return made;
      await end(made);
      return undefined;
    });
    expect(await printed(box, 'echo x > /volumes/late/x && cat /volumes/late/x')).toBe('x\n');
    await end(box);
  });

  test('many requests make one volume of a name', async () => {
    const made = await Promise.all(Array.from({ length: 6 }, () => client.volumes.create({ name: 'once', sizeMb })));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    expect(await client.volumes.create({ name: 'once' })).toEqual(made[0]);
    const resized = await gateway.post<Problem>('/v1/volumes', { name: 'once', sizeMb: 32 });
    expect(resized.body).toMatchObject({ status: 409, detail: expect.stringContaining('16 MiB') });
    // A user has names of its own.
    const own = await gateway.post<Volume>('/v1/volumes', { name: 'o.nce', user: 'ada/b', sizeMb });
    expect([own.status, own.headers.get('location')]).toEqual([201, `/v1/volumes/${own.body.id}`]);
    for (const text of [own.body.id, 'ada/b:o.nce']) expect(await client.volumes.read(text)).toEqual(own.body);
    const listed: Volume[] = [];
    for await (const volume of client.volumes.list({ user: 'ada/b', limit: 1 })) listed.push(volume);
    expect(listed).toEqual([own.body]);
  });

  test('a volume that a living box has stays, also while the box hibernates, which gets it again', async () => {
    const { id } = await client.volumes.create({ name: 'kept', sizeMb });
    const box = await gateway.createBox({ volumes: [{ volume: 'kept' }] });
    await sh(box, 'echo kept > /volumes/kept/x');
    await client.boxes.hibernate(box.id);
    const refused = await refusal(client.volumes.delete('kept'));
    expect(refused).toMatchObject({ status: 409, reason: 'volume_in_use', message: expect.stringContaining(box.id) });
    expect(await printed(box, 'cat /volumes/kept/x; echo more >> /volumes/kept/x')).toBe('kept\n');
    expect(await client.boxes.read(box.id)).toMatchObject({ continuity: 'restored', volumes: [{ volume: id }] });
    // The operator loses its disk.
    await client.boxes.hibernate(box.id);
    const disk = join(gateway.dataDir, 'local/volumes', `${id}.ext4`);
    await rename(disk, `${disk}.away`);
    const lost = await refusal(sh(box, 'true'));
    expect(lost).toMatchObject({ status: 503, reason: 'volume_missing' });
    expect(await client.boxes.read(box.id)).toMatchObject({ state: 'hibernated' });
    await rename(`${disk}.away`, disk);
    expect(await printed(box, 'cat /volumes/kept/x')).toBe('kept\nmore\n');
    await end(box);
    await client.volumes.delete('kept');
    expect(await disks()).not.toContain(`${id}.ext4`);
    expect(await refusal(client.volumes.read(id))).toMatchObject({ status: 404 });
    expect(await refusal(gateway.client.boxes.create({ volumes: [{ volume: id }] }))).toMatchObject({ status: 404 });
  });

  test('a volume is of its tenant, and one of a user is for boxes of that user', async () => {
    const { client: stranger } = await makeTenant(gateway);
    const mine = await client.volumes.create({ name: 'private', user: 'ada', sizeMb });
    for (const text of [mine.id, 'ada:private', 'private']) {
      expect(await refusal(stranger.volumes.read(text))).toMatchObject({ status: 404 });
      expect(await refusal(stranger.volumes.delete(text))).toMatchObject({ status: 404 });
      const refused = await refusal(stranger.boxes.create({ user: 'ada', volumes: [{ volume: text }] }));
      expect(refused).toMatchObject({ status: 404, errors: [{ pointer: '/volumes/0/volume' }] });
    }
    for (const user of [undefined, 'eve']) {
      const refused = await refusal(client.boxes.create({ ...(user && { user }), volumes: [{ volume: mine.id }] }));
      expect(refused).toMatchObject({ status: 400, errors: [{ pointer: '/volumes/0/volume' }] });
    }
    const box = await gateway.createBox({ user: 'ada', volumes: [{ volume: 'ada:private' }] });
    expect(await printed(box, 'stat -c %U /volumes/private')).toBe('user\n');
    // A box that is there has its volumes already.
    const again = await client.boxes.create({ user: 'ada', reuse: true, volumes: [{ volume: 'none' }] });
    expect(again).toMatchObject({ id: box.id, volumes: box.volumes });
    await end(box);
  });

  test('volumes count for the storage of a tenant together with boxes, and end with it', async () => {
    const { client: limited, admin, tenant } = await makeTenant(gateway, { storageMb: 64 });
    const { id } = await limited.volumes.create({ name: 'one', sizeMb: 48 });
    const quota = { name: 'storageMb', limit: 64, used: 48 };
    const over = { code: 'quota_exceeded', quota };
    expect(await refusal(limited.volumes.create({ name: 'two', sizeMb: 17 }))).toMatchObject(over);
    expect(await refusal(limited.boxes.create())).toMatchObject(over);
    await limited.volumes.create({ name: 'two', sizeMb });
    await limited.volumes.delete('two');
    expect(await disks()).toContain(`${id}.ext4`);
    await admin.tenants.delete(tenant.id);
    await eventually(async () => !(await disks()).includes(`${id}.ext4`));
  });

  test('what a killed gateway leaves is removed, and what the database does not know is reported and stays', async () => {
    const { id } = await client.volumes.create({ name: 'half', sizeMb });
    // As after a death between the row and the answer, and after one between the deletion and the disk.
    await query("update volumes set state = 'creating', gateway_id = 'gw-dead' where id = $1", id);
    await eventually(async () => !(await disks()).includes(`${id}.ext4`));
    await client.volumes.create({ name: 'half', sizeMb });
    const foreign = join(gateway.dataDir, 'local/volumes/vol-foreign.ext4');
    await writeFile(foreign, 'of another database');
    await gateway.kill('SIGKILL');
    await gateway.restart();
    await eventually(async () => gateway.output().includes('vol-foreign'));
    expect(await disks()).toContain('vol-foreign.ext4');
    await rm(foreign);
    await client.volumes.delete('half');
  });

  test('bad input is refused with a pointer', async () => {
    for (const name of ['', '.', '..', '.x', 'a/b', 'vol-x', 'ä', 'x'.repeat(65)])
      expect((await gateway.post<Problem>('/v1/volumes', { name })).body).toMatchObject({
        errors: [{ pointer: '/name' }],
      });
    for (const size of [0, 15, 1.5, 102_401, '16'])
      expect((await gateway.post<Problem>('/v1/volumes', { name: 'x', sizeMb: size })).body).toMatchObject({
        errors: [{ pointer: '/sizeMb' }],
      });
    await client.volumes.create({ name: 'good', sizeMb });
    const create = async (...volumes: object[]) => (await gateway.post<Problem>('/v1/boxes', { volumes })).body;
    for (const path of ['/mnt/data', '/volumes', '/volumes/', '/volumes/..', '/volumes/a/b', 'x', '/volumes/../etc'])
      expect(await create({ volume: 'good', path })).toMatchObject({ errors: [{ pointer: '/volumes/0/path' }] });
    expect(await create({ volume: 'good' }, { volume: 'good' })).toMatchObject({
      errors: [{ pointer: '/volumes/1/path' }],
    });
    expect(await create({ volume: 'none' })).toMatchObject({ status: 404 });
    expect(await create(...Array(9).fill({ volume: 'good' }))).toMatchObject({ errors: [{ pointer: '/volumes' }] });
    for (const text of ['%00', '%zz', 'a%2Fb', `${'u'.repeat(257)}:x`, ':good'])
      expect((await gateway.call(`/v1/volumes/${text}`)).status).toBe(404);
  });
});
