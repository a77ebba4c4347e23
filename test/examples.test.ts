import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, type RunningGateway, startGateway } from './api/harness.ts';
import { adminKey } from './api/operator.ts';
import { downloadWheels } from './api/wheels.ts';

const run = promisify(execFile);
const folder = resolve(import.meta.dirname, '../examples');
const runMs = 60_000;

const examplesOf = async (kind: string, ending: string): Promise<string[]> =>
  (await readdir(join(folder, kind))).filter((name) => name.endsWith(ending)).map((name) => `${kind}/${name}`);

/** Resolves with the documented output of an example: its `→` comments, in order. */
const expectedOf = async (example: string): Promise<string[]> => {
  const text = await readFile(join(folder, example), 'utf8');
  return [...text.matchAll(/^\s*(?:#|\/\/) → (.*)$/gm)].map(([, line = '']) => line);
};

const shell = (await examplesOf('curl', '.sh')).filter((name) => name !== 'curl/api.sh');
const node = await examplesOf('node', '.ts');

let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  wheels = await downloadWheels('cowsay', 'python-dotenv');
});
afterAll(() => wheels?.[Symbol.asyncDispose]());

describe.each(anyDriver)('examples on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let place: string;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_WHEELS_DIR: wheels.folder, CODEBOX_ADMIN_KEY: adminKey });
    place = await mkdtemp(join(tmpdir(), 'codebox-examples-'));
  });
  afterAll(async () => {
    await gateway?.dispose();
    await rm(place, { recursive: true, force: true });
  });

  test.each([...shell, ...node])('%s prints its documented output', async (example) => {
    const expected = await expectedOf(example);
    expect(expected.length).toBeGreaterThan(0);
    const program = example.endsWith('.sh') ? 'sh' : process.execPath;
    const { stdout } = await run(program, [join(folder, example)], {
      cwd: place,
      env: {
        ...process.env,
        CODEBOX_URL: gateway.url,
        CODEBOX_KEY: gateway.key,
        CODEBOX_ADMIN_KEY: adminKey,
        CODEBOX_NETWORK: 'none',
      },
      maxBuffer: 32 * 1024 * 1024,
      timeout: runMs,
    });
    let rest = stdout;
    for (const line of expected) {
      expect(rest).toContain(line);
      rest = rest.slice(rest.indexOf(line) + line.length);
    }
  });

  test('the examples leave no box', async () => {
    expect((await gateway.get<{ items: unknown[] }>('/v1/boxes')).body.items).toEqual([]);
  });
});
