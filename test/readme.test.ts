import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drivers, type RunningGateway, startGateway } from './api/harness.ts';

const run = promisify(execFile);
const marker = '---codebox-block---';

/** The shell blocks of README in order, each with what its output must contain. */
const readBlocks = async (): Promise<{ script: string; expected: string | undefined }[]> => {
  const text = await readFile(resolve(import.meta.dirname, '../README.md'), 'utf8');
  return [...text.matchAll(/```sh\n(.*?)```\n(?:```json\n(.*?)```)?/gs)].map(([, script = '', expected]) => ({
    script,
    expected: expected?.trim(),
  }));
};

describe.each(drivers)('README on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let folder: string;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    folder = await mkdtemp(join(tmpdir(), 'codebox-readme-'));
    await symlink(gateway.dataDir, join(folder, '.codebox'));
  });
  afterAll(async () => {
    await gateway?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  test('every curl block does what it says, pasted one after the other', async () => {
    const blocks = await readBlocks();
    expect(blocks.length).toBeGreaterThan(8);
    const script = blocks
      .map((block) => `${block.script}\necho '${marker}'`)
      .join('\n')
      .replaceAll('http://localhost:8080', gateway.url);
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env: { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) },
      maxBuffer: 32 * 1024 * 1024,
      timeout: 120_000,
    });
    const outputs = stdout.split(marker);
    for (const [index, block] of blocks.entries()) if (block.expected) expect(outputs[index]).toContain(block.expected);
  });
});
