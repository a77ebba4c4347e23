import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import { anyDriver, drivers, type RunningGateway, startGateway } from '../api/harness.ts';
import { adminKey, endTenants, makeTenant } from '../api/operator.ts';
import { clientsOf, installClients } from './e2b-clients.ts';

beforeAll(installClients);

describe.each(drivers)('copies of E2B sandboxes on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let id: string;
  const { js, control } = clientsOf(() => ({ gateway, sandbox: id }));
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b', CODEBOX_ADMIN_KEY: adminKey });
    const { body } = await control('POST', '/v2/sandboxes', { templateID: 'base', envVars: { FROM: 'source' } });
    id = body.sandboxID as string;
  });
  afterAll(async () => {
    if (id) await control('DELETE', `/sandboxes/${id}`);
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  test('sandboxes are created from a snapshot by its id or name, and are independent of it and of each other', async () => {
    const seen = await js<Record<string, unknown>>(`
      await sandbox.files.write('app/config.json', '{}');
      const busy = await sandbox.commands.run('sleep 60', { background: true });
      const snapshot = await sandbox.createSnapshot({ name: 'first' });
      const ids = async (options) => (await Sandbox.listSnapshots(options).nextItems()).map(({ snapshotId }) => snapshotId === snapshot.snapshotId);
      const lists = [await ids(), await ids({ name: 'first' }), await ids({ name: 'other' }), await ids({ sandboxId: id }), await ids({ sandboxId: 'other' })];
      await sandbox.files.write('app/config.json', 'changed');
      const copies = await Promise.all([Sandbox.create(snapshot.snapshotId, { envs: { OWN: '1' } }), Sandbox.create('first')]);
      const [one, two] = copies;
      const read = await Promise.all(copies.map(({ files }) => files.read('app/config.json')));
      await one.files.write('app/config.json', 'of one');
      const env = (await one.commands.run('echo $FROM $OWN $E2B_SANDBOX_ID')).stdout === 'source 1 ' + one.sandboxId + '\\n';
      const code = (await one.runCode('import os; os.environ["FROM"]')).text;
      const seen = { names: snapshot.names, lists, read, env, code, kept: await two.files.read('app/config.json'), continues: await busy.kill(),
        listed: (await Sandbox.list().nextItems()).some(({ sandboxId }) => sandboxId === snapshot.snapshotId),
        entered: await failure(Sandbox.connect(snapshot.snapshotId)), ended: await Sandbox.kill(snapshot.snapshotId) };
      await Promise.all(copies.map((copy) => copy.kill()));
      const deleted = [await Sandbox.deleteSnapshot(snapshot.snapshotId), await Sandbox.deleteSnapshot(snapshot.snapshotId)];
      return { ...seen, deleted, late: await failure(Sandbox.create(snapshot.snapshotId)) };
    `);
    expect(seen).toEqual({
      names: ['first'],
      lists: [[true], [true], [], [true], []],
      read: ['{}', '{}'],
      ...{ env: true, code: 'source', kept: '{}', continues: true, listed: false },
      ...{ entered: 'SandboxNotFoundError', ended: false, deleted: [true, false], late: 'SandboxError' },
    });
  });

  test('a fork begins with the files of a sandbox, which continues, and another tenant can copy neither', async () => {
    const seen = await js<Record<string, unknown>>(`
      await sandbox.files.write('state.txt', 'before');
      const forks = await sandbox.fork({ count: 2 });
      const [one, two] = forks;
      await one.files.write('state.txt', 'in the fork');
      const seen = { count: new Set([id, ...forks.map(({ sandboxId }) => sandboxId)]).size, read: await two.files.read('state.txt'),
        own: await sandbox.files.read('state.txt'), running: await sandbox.isRunning() };
      await Promise.all(forks.map((fork) => fork.kill()));
      return { ...seen, gone: await failure(one.fork()) };
    `);
    expect(seen).toEqual({ count: 3, read: 'before', own: 'before', running: true, gone: 'SandboxNotFoundError' });

    const snapshot = (await control('POST', `/sandboxes/${id}/snapshots`, {})).body.snapshotID as string;
    const key = toE2bKey((await makeTenant(gateway)).key);
    const statuses = [
      await control('POST', `/sandboxes/${id}/fork`, {}, key),
      await control('POST', `/sandboxes/${id}/snapshots`, {}, key),
      await control('POST', '/v2/sandboxes', { templateID: snapshot }, key),
      await control('DELETE', `/templates/${snapshot}`, undefined, key),
      await control('DELETE', `/templates/${snapshot}`),
      await control('POST', `/sandboxes/${id}/fork`, { count: 101 }),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([404, 404, 400, 404, 204, 400]);
  });
});

describe.each(anyDriver)('places of E2B sandboxes on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let id: string;
  const { js, py, control } = clientsOf(() => ({ gateway, sandbox: id }));
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b', CODEBOX_ADMIN_KEY: adminKey });
    id = (await control('POST', '/v2/sandboxes', { templateID: 'base' })).body.sandboxID as string;
  });
  afterAll(async () => {
    if (id) await control('DELETE', `/sandboxes/${id}`);
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  test('ports need no token if their sandbox was created so, until its key is revoked; everything else needs it', async () => {
    const { key, admin } = await makeTenant(gateway);
    const options = { templateID: 'base', network: { allowPublicTraffic: true, denyOut: ['0.0.0.0/0'] } };
    const { body } = await control('POST', '/v2/sandboxes', options, toE2bKey(key));
    const { sandboxID, envdAccessToken } = body as { sandboxID: string; envdAccessToken: string };
    const get = async (port: number, sandbox = sandboxID, more: Record<string, string> = {}) => {
      const headers = { 'e2b-sandbox-id': sandbox, 'e2b-sandbox-port': String(port), ...more };
      return (await fetch(`${gateway.url}/contexts`, { headers })).status;
    };
    // Nothing listens there, which only those learn who are admitted.
    const ports = async () => [await get(8000), await get(49_999), await get(49_983), await get(8000, id)];
    expect(await ports()).toEqual([502, 403, 401, 403]);
    expect(await get(8000, sandboxID, { 'e2b-traffic-access-token': 'wrong' })).toBe(403);
    expect(await get(49_999, sandboxID, { 'x-access-token': envdAccessToken })).toBe(200);
    const { body: info } = await control('GET', `/sandboxes/${sandboxID}`, undefined, toE2bKey(key));
    expect(info).toMatchObject({ metadata: {}, allowInternetAccess: false });
    await admin.keys.revoke(key.split('_')[1] ?? '');
    await expect.poll(() => get(8000), { timeout: 15_000 }).toBe(403);
  });

  test('the home folder of commands and terminals is that of the files', async () => {
    const seen = await js<Record<string, unknown>>(`
      await sandbox.files.write('~/at/home.txt', 'here');
      const out = async (line, options) => (await sandbox.commands.run(line, options)).stdout.trim();
      let output = '';
      const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { output += Buffer.from(data); } });
      await sandbox.pty.sendInput(pty.pid, Buffer.from('echo at-$PWD-$HOME; exit\\n'));
      await pty.wait();
      return {
        home: await out('pwd; cd; pwd; cat ~/at/home.txt'), folder: await out('pwd', { cwd: 'at' }), other: await out('pwd', { cwd: '/tmp' }),
        own: await out('echo $HOME', { envs: { HOME: '/tmp' } }), pty: output.includes('at-/home/user-/home/user'),
        packages: await out('python3 -m site --user-site') === (await sandbox.runCode('import site; print(site.getusersitepackages())')).logs.stdout.join('').trim(),
        file: await failure(sandbox.files.watchDir('at/home.txt', () => {})),
      };
    `);
    expect(seen).toEqual({
      home: '/home/user\n/home/user\nhere',
      ...{
        folder: '/home/user/at',
        other: '/tmp',
        own: '/tmp',
        pty: true,
        packages: true,
        file: 'InvalidArgumentError',
      },
    });
  });

  test('the Python clients make snapshots and forks too', async () => {
    const seen = await py<unknown>(`
sandbox = Sandbox.connect(os.environ['SANDBOX'])
sandbox.files.write('py.txt', 'python')
snapshot = sandbox.create_snapshot()
copy = Sandbox.create(snapshot.snapshot_id)
fork = sandbox.fork()[0]
seen = [copy.files.read('py.txt'), fork.files.read('py.txt'), copy.kill(), fork.kill()]
seen += [[each.snapshot_id == snapshot.snapshot_id for each in Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()]]
show([*seen, Sandbox.delete_snapshot(snapshot.snapshot_id), Sandbox.delete_snapshot(snapshot.snapshot_id)])`);
    expect(seen).toEqual(['python', 'python', true, true, [true], true, false]);
  });
});
