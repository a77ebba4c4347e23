import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drivers, type RunningGateway, startGateway } from '../api/harness.ts';
import { clientsOf, installClients } from './e2b-clients.ts';

beforeAll(installClients);

describe.each(drivers)('the files of the E2B dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let id: string;
  const { js, control } = clientsOf(() => ({ gateway, sandbox: id }));
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b' });
    const { body } = await control('POST', '/v2/sandboxes', { templateID: 'base' });
    id = body.sandboxID as string;
  });
  afterAll(() => gateway?.dispose());

  test('files are written and read in every form, and listed, renamed and removed', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { files } = sandbox;
      const written = await files.write('a/b.txt', 'hällo');
      const several = await files.write([{ path: 'c.txt', data: '1' }, { path: '/home/user/d/e.txt', data: '2' }]);
      await files.write('z.txt', 'zipped', { gzip: true });
      await files.write('empty', '');
      return {
        written, several: several.map(({ path }) => path), zipped: await files.read('z.txt'), empty: await files.read('empty'),
        read: await files.read('/mnt/data/a/b.txt'), same: (await sandbox.commands.run('cat /home/user/a/b.txt')).stdout,
        missing: await failure(files.read('nope')), outside: await failure(files.read('/nope/passwd')),
        folder: await failure(files.read('a')), made: [await files.makeDir('m/n'), await files.makeDir('m/n')],
        listed: (await files.list('.', { depth: 2 })).filter(({ path }) => /[ad]\\//.test(path.slice(11))).map(({ path, type, size }) => [path, type, size]),
        moved: (await files.rename('c.txt', 'm/c2.txt')).path, info: (await files.getInfo('m/c2.txt')).size, changed: (await files.getInfo('m')).modifiedTime,
        exists: [await files.exists('m'), await files.exists('nope')],
        removed: [await files.remove('m'), await files.exists('m')],
      };
    `);
    expect(seen).toMatchObject({
      written: { path: '/home/user/a/b.txt', name: 'b.txt', type: 'file' },
      several: ['/home/user/c.txt', '/home/user/d/e.txt'],
      zipped: 'zipped',
      empty: '',
      read: 'hällo',
      same: 'hällo',
      missing: 'FileNotFoundError',
      outside: 'FileNotFoundError',
      folder: 'InvalidArgumentError',
      made: [true, false],
      listed: [
        ['/home/user/a/b.txt', 'file', 6],
        ['/home/user/d/e.txt', 'file', 1],
      ],
      moved: '/home/user/m/c2.txt',
      info: 1,
      changed: expect.stringMatching(/^20\d\d-/),
      exists: [true, false],
      removed: [null, false],
    });
  });

  test('files have modes and links, and are also read and written outside of the home folder', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { files, commands } = sandbox;
      const written = await files.write('/tmp/deep/a.txt', 'there');
      await commands.run('mkdir -p modes && cd modes && echo 1 > f && chmod 640 f && ln -s f link && ln -s /tmp/deep out');
      const facts = ({ name, type, mode, permissions, owner, group, symlinkTarget }) => [name, type, mode, permissions, owner, group, symlinkTarget];
      const seen = {
        written: written.path, read: await files.read('/tmp/deep/a.txt'), listed: (await files.list('/tmp/deep')).map(({ path }) => path),
        printed: (await commands.run('cat /tmp/deep/a.txt')).stdout, made: await files.makeDir('/tmp/deep/b'),
        root: (await files.list('/')).some(({ path, type }) => path === '/tmp' && type === 'dir'),
        modes: (await files.list('modes')).map(facts), info: facts(await files.getInfo('modes/link')), folder: facts(await files.getInfo('modes')).slice(1, 6),
        moved: (await files.rename('/tmp/deep', 'modes/deep')).path, back: (await files.rename('modes/deep/a.txt', '/tmp/a.txt')).path,
        gone: await files.exists('/tmp/deep'), kept: await files.read('/tmp/a.txt'), link: await (await fetch(await sandbox.downloadUrl('/tmp/a.txt'))).text(),
        forbidden: await failure(files.write('/etc/new', 'x')), watched: await failure(files.watchDir('/tmp', () => {})),
      };
      await files.remove('/tmp/a.txt');
      return { ...seen, removed: await files.exists('/tmp/a.txt') };
    `);
    const owner = ['user', 'user'];
    const link = ['link', 'symlink', 0o777, 'Lrwxrwxrwx', ...owner, '/home/user/modes/f'];
    expect(seen).toEqual({
      ...{ written: '/tmp/deep/a.txt', read: 'there', listed: ['/tmp/deep/a.txt'], printed: 'there', made: true },
      root: true,
      modes: [
        ['f', 'file', 0o640, '-rw-r-----', ...owner, null],
        link,
        ['out', 'symlink', 0o777, 'Lrwxrwxrwx', ...owner, '/tmp/deep'],
      ],
      info: link,
      folder: ['dir', 0o755, 'drwxr-xr-x', ...owner],
      ...{ moved: '/home/user/modes/deep', back: '/tmp/a.txt', gone: false, kept: 'there', link: 'there' },
      ...{ forbidden: 'InvalidArgumentError', watched: 'InvalidArgumentError', removed: false },
    });
  });

  test('files keep the metadata that they are written with, also in a snapshot', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { files } = sandbox;
      const noted = { metadata: { Author: 'ada', kind: 'a b=c' } };
      const one = await files.write('noted/one.txt', '1', noted);
      const several = await files.write([{ path: 'noted/two.txt', data: '2' }, { path: 'noted/three.txt', data: '3' }], { ...noted, useOctetStream: false });
      const moved = await files.rename('noted/one.txt', 'noted/moved.txt');
      await files.write('noted/two.txt', 'again');
      const all = [one, ...several, moved, await files.getInfo('noted/moved.txt')].map(({ metadata }) => metadata);
      const listed = (await files.list('noted')).map(({ name, metadata }) => [name, metadata?.author]);
      await sandbox.commands.run('python3 -c "import os; os.setxattr(\\'noted/two.txt\\', \\'user.e2b.by\\', b\\'code\\')"');
      const { snapshotId } = await sandbox.createSnapshot();
      const copy = await Sandbox.create(snapshotId);
      const kept = [await copy.files.getInfo('noted/moved.txt'), await copy.files.getInfo('noted/two.txt')].map(({ metadata }) => metadata);
      await copy.kill();
      await Sandbox.deleteSnapshot(snapshotId);
      const many = Object.fromEntries(Array.from({ length: 65 }, (_, n) => ['x' + n, '']));
      const refused = [await failure(files.write('noted/many.txt', '', { metadata: many })), await files.exists('noted/many.txt')];
      return { all, listed, kept, refused };
    `);
    const metadata = { author: 'ada', kind: 'a b=c' };
    expect(seen).toEqual({
      all: Array(5).fill(metadata),
      listed: [
        ['moved.txt', 'ada'],
        ['three.txt', 'ada'],
        ['two.txt', null],
      ],
      kept: [metadata, { by: 'code' }],
      refused: ['InvalidArgumentError', false],
    });
  });

  test('changes below a folder are reported as they happen', async () => {
    const seen = await js<unknown>(`
      const { files } = sandbox;
      await files.makeDir('watched/sub');
      const [flat, deep] = [[], []];
      const watches = [
        await files.watchDir('watched', ({ name, type }) => flat.push(type + ' ' + name)),
        await files.watchDir('/home/user/watched', ({ name, type }) => deep.push(type + ' ' + name), { recursive: true }),
      ];
      const reported = async (events, wanted) => {
        const until = Date.now() + 20_000;
        while (!events.includes(wanted) && Date.now() < until) await new Promise((done) => setTimeout(done, 20));
      };
      await files.write('watched/sub/c', '1');
      await reported(deep, 'write sub/c');
      await files.write('watched/a', '1');
      await reported(flat, 'write a');
      await files.rename('watched/a', 'watched/b');
      await reported(flat, 'create b');
      await files.remove('watched/b');
      await reported(flat, 'remove b');
      await reported(deep, 'remove b');
      for (const watch of watches) await watch.stop();
      const missing = await failure(files.watchDir('nope', () => {}));
      return { flat: [...new Set(flat)], deep, missing };
    `);
    expect(seen).toMatchObject({
      flat: ['create a', 'write a', 'rename a', 'create b', 'remove b'],
      deep: expect.arrayContaining(['create sub/c', 'write sub/c', 'remove b']),
      missing: 'FileNotFoundError',
    });
  });
});
