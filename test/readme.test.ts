import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningAgent, serveAgent } from './agent/agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './agent/model-server.ts';
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
  let agent: RunningAgent;
  let model: ModelServer;
  let folder: string;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    model = await startModelServer();
    model.say(runs('import pandas\npandas.read_csv("sales.csv").sales.sum()'), { text: '12 were sold.' });
    agent = await serveAgent(gateway, { CODEBOX_MODEL_URL: `${model.url}/v1`, CODEBOX_MODEL: 'compatible/scripted' });
    folder = await mkdtemp(join(tmpdir(), 'codebox-readme-'));
    await symlink(gateway.dataDir, join(folder, '.codebox'));
  });
  afterAll(async () => {
    await agent?.dispose();
    await model?.[Symbol.asyncDispose]();
    await gateway?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  test('every curl block does what it says, pasted one after the other', async () => {
    const blocks = await readBlocks();
    expect(blocks.length).toBeGreaterThan(8);
    const script = blocks
      .map((block) => `${block.script}\necho '${marker}'`)
      .join('\n')
      .replaceAll('http://localhost:8080', gateway.url)
      .replaceAll('http://localhost:8090', agent.url);
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
