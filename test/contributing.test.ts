import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedPostgres } from '../services/postgres/embedded.ts';
import { drivers, startGateway } from './api/harness.ts';
import { project, readBlocks } from './pages.ts';
import { directPackage, paste } from './paste.ts';

// Images are built and the whole project is compiled here.
vi.setConfig({ testTimeout: 300_000 });

/** Images of a recipe end with this, so that they are removed again, and nobody's own. */
const tag = `test-${process.pid}`;
const boxImage = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';

const blocks = await readBlocks('CONTRIBUTING.md');
const page = await readFile(join(project, 'CONTRIBUTING.md'), 'utf8');

/** The blocks below a heading, in order. */
const recipe = (heading: string) => {
  const lines = page.split('\n');
  const first = lines.indexOf(`## ${heading}`) + 1;
  const end = lines.findIndex((line, index) => index >= first && line.startsWith('## '));
  const own = blocks.filter(({ line }) => line > first && (end === -1 || line <= end));
  if (first === 0 || own.length === 0) throw new Error(`CONTRIBUTING.md has no recipe "${heading}"`);
  return own;
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-contributing-'));
  const copied = ['services', 'scripts', 'images', 'test', 'openapi.yaml', 'tsconfig.json', 'vitest.config.ts'];
  for (const name of copied) await cp(join(project, name), join(folder, name), { recursive: true });
  await symlink(join(project, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), await directPackage(folder));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Pastes the blocks of a recipe. Where one says how CodeBox is started, a gateway with these settings serves the later ones. */
const follow = async (heading: string): Promise<void> => {
  let url = 'http://localhost:8080';
  const adapt = (text: string) =>
    text
      .replaceAll(/codebox-box:latest/g, boxImage)
      .replaceAll(/(codebox-box-\w+):latest/g, `$1:${tag}`)
      .replaceAll('http://localhost:8080', url);
  const steps = recipe(heading);
  for (const [index, { language, notRun, text }] of steps.entries()) {
    if (language !== 'sh') continue;
    if (notRun !== undefined) {
      const [, name = '', value = ''] = /^(CODEBOX_\w+)=(\S+) npm start$/m.exec(text) ?? [];
      const gateway = await startGateway('docker', { [name]: join(folder, value) });
      onTestFinished(() => gateway.dispose());
      url = gateway.url;
      await rm(join(folder, '.codebox'), { recursive: true, force: true });
      await symlink(gateway.dataDir, join(folder, '.codebox'));
      continue;
    }
    const output = await paste(adapt(text), { cwd: folder, timeout: 300_000 });
    const next = steps[index + 1];
    if (next?.language === 'json') expect(output).toContain(next.text.trim());
  }
};

if (drivers.includes('docker'))
  test.each([
    ['Add a template', 'words'],
    ['Add a kernel', 'sql'],
  ])('the recipe "%s" ends with a box that has it', async (heading, name) => {
    onTestFinished(async () => {
      await paste(`docker rmi --force codebox-box-${name}:${tag}`, { cwd: folder });
    });
    await follow(heading);
  });

test('the recipe "Add a migration" writes one that a new database takes', async () => {
  await follow('Add a migration');
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  onTestFinished(() => postgres.stop());
  const client = new pg.Client(postgres.url);
  await client.connect();
  onTestFinished(() => client.end());
  await migrate(drizzle(client), { migrationsFolder: join(folder, 'services/gateway/store/migrations') });
  expect((await client.query('select * from remarks')).rows).toEqual([]);
});

test('the recipe "Add a driver" compiles, and its suite is found', () => follow('Add a driver'));
