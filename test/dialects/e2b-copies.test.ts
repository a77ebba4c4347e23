import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import { anyDriver, collect, drivers, type RunningGateway, startGateway } from '../api/harness.ts';
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

  test('a template is built from steps with copied files, and sandboxes begin with what they made', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { mkdir, mkdtemp, writeFile } = await import('node:fs/promises');
      const folder = await mkdtemp((await import('node:os')).tmpdir() + '/context-');
      await mkdir(folder + '/src/lib', { recursive: true });
      for (const [path, text] of [['src/main.py', 'import lib.it'], ['src/lib/it.py', ''], ['a b.csv', 'EUR,1\\n'], ['it\\'s.csv', 'USD,2\\n'], ['one.txt', '1']])
        await writeFile(folder + '/' + path, text);
      const from = () => Template({ fileContextPath: folder });
      const template = from().fromBaseImage().setEnvs({ CURRENCY: 'EUR' }).setWorkdir('app').copy('src', '.').copy('*.csv', 'data/')
        .copy('one.txt', '~/renamed.txt', { mode: 0o600 }).runCmd('grep -h $CURRENCY data/*.csv > ~/rate.txt; echo "built in $PWD"');
      const logs = [];
      const onBuildLogs = ({ message }) => logs.push(message);
      const built = await Template.build(template, 'reports', { cpuCount: 1, memoryMB: 256, onBuildLogs });
      const mine = await Sandbox.create('reports');
      const { cpuCount, memoryMB } = await mine.getInfo();
      const found = (await mine.commands.run('find ~/ -type f -printf "%P %m\\n" | sort; cat ~/rate.txt; echo $CURRENCY')).stdout;
      const again = [];
      await Template.build(template, 'reports', { onBuildLogs: ({ message }) => again.push(message) });
      const failing = from().fromTemplate('reports').runCmd('echo begun').runCmd('cat ~/rate.txt; exit 3').runCmd('echo never');
      const status = await Template.buildInBackground(failing, 'broken').then(async (build) => {
        for (;;) {
          const one = await Template.getBuildStatus(build);
          if (one.status === 'error') return one;
          await new Promise((done) => setTimeout(done, 200));
        }
      });
      const message = (promise) => promise.then(() => 'built', ({ constructor, message }) => constructor.name + ' ' + message);
      const seen = { name: built.name, hasLogs: logs.some((line) => line.includes('built in /home/user/app')), cpuCount, memoryMB, found,
        uploads: again.filter((line) => /^(Skipping upload|Uploaded)/.test(line)).map((line) => line.split(' ')[0]), reason: status.reason,
        refused: [
          await message(Template.build(from().fromBaseImage().setStartCmd('serve', 'true'), 'other')),
          await message(Template.build(from().fromUbuntuImage(), 'other')),
          await message(Template.build(from().fromBaseImage().copy('one.txt', '/app/'), 'other')),
          await message(Template.build(from(), 'python')),
          await message(Template.build(from(), 'other:v1')),
        ],
        exists: [await Template.exists('reports'), await Template.exists('broken')] };
      await mine.kill();
      return { ...seen, created: await failure(Sandbox.create('broken')) };
    `);
    expect(seen).toMatchObject({
      name: 'reports',
      hasLogs: true,
      cpuCount: 1,
      memoryMB: 256,
      found:
        "app/data/a b.csv 644\napp/data/it's.csv 644\napp/lib/it.py 644\napp/main.py 644\nrate.txt 644\nrenamed.txt 600\nEUR,1\nEUR\n",
      uploads: ['Skipping', 'Skipping', 'Skipping'],
      reason: { step: '2', message: expect.stringContaining('exit code 3') },
      refused: [
        expect.stringMatching(/^BuildError 400.*startCmd is not supported/),
        expect.stringMatching(/^BuildError 400.*fromImage is not supported/),
        expect.stringMatching(/^BuildError 400.*\/app, but a template keeps only/),
        expect.stringMatching(/^BuildError 409/),
        expect.stringMatching(/^BuildError 400.*name/),
      ],
      exists: [true, false],
      created: 'SandboxError',
    });

    // In Python, upon that template, whose next version it becomes.
    expect(
      await py(`
import pathlib, tempfile
from e2b import Template
folder = tempfile.mkdtemp()
pathlib.Path(folder, 'more.txt').write_text('more')
template = Template(file_context_path=folder).from_template('reports').copy('more.txt', 'app/').pip_install('cowsay')
logs = []
built = Template.build(template, 'reports', on_build_logs=lambda entry: logs.append(entry.message))
mine = Sandbox.create('reports')
seen = [mine.commands.run('cat app/more.txt rate.txt').stdout, mine.run_code('import cowsay; cowsay.__name__').text, mine.kill()]
show(seen + [any('Successfully installed cowsay' in line for line in logs)])`),
    ).toEqual(['moreEUR,1\n', 'cowsay', true, true]);

    const theirs = toE2bKey((await makeTenant(gateway)).key);
    const statuses = [
      await control('POST', '/v2/sandboxes', { templateID: 'reports' }, theirs),
      await control('DELETE', '/templates/reports', undefined, theirs),
      await fetch(`${gateway.url}/templates/reports/files/${'0'.repeat(64)}?expires=9999999999&token=x`, {
        method: 'PUT',
      }),
      await control('GET', '/templates/reports/builds/0-0-bld-none/status'),
      await control('DELETE', '/templates/reports'),
      await control('DELETE', '/templates/base'),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([400, 404, 401, 404, 204, 501]);
    const waiting = await collect(gateway.client.boxes.list({ user: 'e2b/build-files' }));
    expect(waiting).toMatchObject([{ network: 'none', onIdle: 'delete', idleSeconds: 3600 }]);
    await gateway.client.boxes.delete(waiting[0]?.id ?? '');
  }, 240_000);

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
