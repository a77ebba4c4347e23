import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedPostgres } from '../services/postgres/embedded.ts';
import { drivers, startGatewayProcess } from './api/harness.ts';
import { project, readBlocks } from './pages.ts';
import { directPackage, paste } from './paste.ts';

// These tests build images and compile the whole project.
vi.setConfig({ testTimeout: 300_000 });

/** The tag of the images of recipes, so that only these are removed afterwards. */
const tag = `test-${process.pid}`;
const boxImage = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';

const blocks = await readBlocks('CONTRIBUTING.md');
const page = await readFile(join(project, 'CONTRIBUTING.md'), 'utf8');

/** Returns the blocks below a heading, in order. */
const recipe = (heading: string) => {
  const lines = page.split('\n');
  const first = lines.indexOf(`## ${heading}`) + 1;
  const end = lines.findIndex((line, index) => index >= first && line.startsWith('## '));
  const own = blocks.filter(({ line }) => line > first && (end === -1 || line <= end));
  if (first === 0 || own.length === 0) throw new Error(`CONTRIBUTING.md has no recipe "${heading}"`);
  return own;
};

let folder: string;

/** Copies what the compiler has found out about the project, so that it checks only what a recipe changes. */
const copyCheckedTypes = async (): Promise<void> => {
  const checked = '.codebox/checks/services.tsbuildinfo';
  if (!existsSync(join(project, checked))) return;
  await mkdir(join(folder, dirname(checked)), { recursive: true });
  // The compiler names packages by their real paths.
  const packages = relative(join(folder, dirname(checked)), join(project, 'node_modules'));
  const text = await readFile(join(project, checked), 'utf8');
  await writeFile(join(folder, checked), text.replaceAll('"../../node_modules/', `"${packages}/`));
};

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'codebox-contributing-')));
  const copied = ['services', 'scripts', 'images', 'test', 'openapi.yaml', 'tsconfig.json', 'vitest.config.ts'];
  for (const name of copied) await cp(join(project, name), join(folder, name), { recursive: true });
  await symlink(join(project, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), await directPackage(folder));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs the blocks of a recipe. A gateway of the copy replaces a block that starts CodeBox, and serves the later blocks. */
const follow = async (heading: string): Promise<void> => {
  let url = 'http://localhost:8080';
  const adapt = (text: string) =>
    text
      .replaceAll(/codebox-box:latest/g, boxImage)
      .replaceAll(/(codebox-box-\w+):latest/g, `$1:${tag}`)
      .replaceAll('http://localhost:8080', url);
  const settingOf = (value: string) => (value.includes('/') ? join(folder, value) : value);
  const steps = recipe(heading);
  for (const [index, { language, notRun, text }] of steps.entries()) {
    if (language !== 'sh') continue;
    if (notRun !== undefined) {
      const [, name, value = ''] = /^(CODEBOX_\w+)=(\S+) npm start$/m.exec(text) ?? [];
      const gateway = await startGatewayProcess('docker', name ? { [name]: settingOf(value) } : {}, folder);
      onTestFinished(() => gateway.dispose());
      url = gateway.url;
      await rm(join(folder, '.codebox'), { recursive: true, force: true });
      await symlink(gateway.dataDir, join(folder, '.codebox'));
      onTestFinished(() => rm(join(folder, '.codebox'), { force: true }));
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
  ])('the recipe "%s" ends with a working box', async (heading, name) => {
    onTestFinished(async () => {
      await paste(`docker rmi --force codebox-box-${name}:${tag}`, { cwd: folder });
    });
    await follow(heading);
  });

test('the recipe "Add a migration" writes a migration that applies to a new database', async () => {
  await follow('Add a migration');
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  onTestFinished(() => postgres.stop());
  const client = new pg.Client(postgres.url);
  await client.connect();
  onTestFinished(() => client.end());
  await migrate(drizzle(client), { migrationsFolder: join(folder, 'services/gateway/store/migrations') });
  expect((await client.query('select * from remarks')).rows).toEqual([]);
});

if (drivers.includes('docker'))
  test('the recipe "Add a surface" ends with a gateway that speaks it', () => follow('Add a surface'));

// This recipe is last, because it compiles the files of the other recipes too.
test('the recipe "Add a driver" compiles, and its test suite is found', async () => {
  await copyCheckedTypes();
  await follow('Add a driver');
});
