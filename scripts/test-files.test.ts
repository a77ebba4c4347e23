import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectFolder } from './project.ts';

/** In place of the set-up of boxes, which these tests do without. */
const withoutSetUp = {
  'test-drivers.ts': `
export const [testPrograms, allDrivers] = [[], []];
export const prepareDrivers = async () => ({ env: {}, notRun: [], [Symbol.asyncDispose]: async () => {} });`,
  'python-tests.ts': `
export const preparePython = async () => undefined;
export const runPythonTests = preparePython;`,
};
/** A test that passes if it has run before. */
const unsteady = `
import { existsSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
test('needs two attempts', () => {
  const hasRun = existsSync('has-run');
  writeFileSync('has-run', '');
  expect(hasRun, 'this is the first attempt').toBe(true);
});`;
const steady = `
import { test } from 'vitest';
test('needs one attempt', () => {});`;

/** A copy of the project for `npm test`, with two planted test files. */
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-test-files-'));
  for (const name of ['node_modules', 'services', 'test']) await symlink(join(projectFolder, name), join(folder, name));
  for (const name of ['scripts', 'package.json', 'vitest.config.ts'])
    await cp(join(projectFolder, name), join(folder, name), { recursive: true });
  const planted = { ...withoutSetUp, 'unsteady.test.ts': unsteady, 'steady.test.ts': steady };
  for (const [name, text] of Object.entries(planted)) await writeFile(join(folder, 'scripts', name), text);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs the planted files by `npm test`, and resolves with its exit code and its output. */
const runPlanted = async (env: Record<string, string>): Promise<{ code: number; output: string }> => {
  await rm(join(folder, 'has-run'), { force: true });
  const outer = Object.entries(process.env).filter(([name]) => !/^(CI$|VITEST|CODEBOX_TEST_)/.test(name));
  const argv = [join(folder, 'scripts/test.ts'), '--quick', 'scripts/unsteady', 'scripts/steady'];
  const options = { cwd: folder, env: { ...Object.fromEntries(outer), NO_COLOR: '1', ...env }, timeout: 60_000 };
  return new Promise((done) => {
    execFile(process.execPath, argv, options, (error, stdout) =>
      done({ code: error === null ? 0 : Number(error.code), output: stdout }),
    );
  });
};

test('a file that fails and then passes by itself is listed with its first failure, which CODEBOX_TEST_STRICT=1 makes a failure', async () => {
  const { code, output } = await runPlanted({});
  const [, listed = ''] = /── Unsteady.*?\n(.*?)\n\n/s.exec(output) ?? [];
  expect(listed.match(/^- .*/gm)).toEqual(['- scripts/unsteady.test.ts']);
  expect(listed).toMatch(/\n {4}needs two attempts\n.*this is the first attempt/);
  expect(output).toContain('\n2 passed, 0 failed');
  expect(code).toBe(0);

  const strict = await runPlanted({ CODEBOX_TEST_STRICT: '1' });
  expect(strict.output).toMatch(
    /\n- scripts\/unsteady\.test\.ts\n(?: {4}.*\n)+With CODEBOX_TEST_STRICT=1 this counts as a failure\.\n/,
  );
  expect(strict.code).toBe(1);
});
