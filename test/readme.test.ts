import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readTemplates, templateFields } from '../services/gateway/boxes/supply/templates.ts';
import { type RunningAgent, serveAgent } from './agent/agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './agent/model-server.ts';
import { drivers, type RunningGateway, startGateway } from './api/harness.ts';

const run = promisify(execFile);
const marker = '---codebox-block---';

const project = resolve(import.meta.dirname, '..');
/** The pages that have shell blocks, which all begin with nothing but a gateway. */
const pages = ['README.md', 'docs/send-code.md'];

/** The shell blocks of a page in order, each with what its output must contain. */
const readBlocks = async (page: string): Promise<{ script: string; expected: string | undefined }[]> => {
  const text = await readFile(join(project, page), 'utf8');
  return [...text.matchAll(/```sh\n(.*?)```\n(?:```json\n(.*?)```)?/gs)].map(([, script = '', expected]) => ({
    script,
    expected: expected?.trim(),
  }));
};

test('the pages with shell blocks are those that are run', async () => {
  const docs = (await readdir(join(project, 'docs'))).map((name) => `docs/${name}`);
  const all = await Promise.all(docs.map(async (page) => ((await readBlocks(page)).length > 0 ? [page] : [])));
  expect(['README.md', ...all.flat()]).toEqual(pages);
});

test('docs/templates.md has every field of a template, and its example is one that the gateway takes', async () => {
  const text = await readFile(join(project, 'docs/templates.md'), 'utf8');
  const [, example = ''] = /```yaml\n(.*?)```/s.exec(text) ?? [];
  const folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
  const file = join(folder, 'templates.yaml');
  await writeFile(file, example);
  expect([...readTemplates(file, 'codebox-box', 0).keys()]).toEqual(['python', 'data']);
  await rm(folder, { recursive: true });
  const fields = [...text.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  expect(fields).toEqual(templateFields);
  expect(Object.keys((parse(example) as { data: object }).data)).toEqual(templateFields);
});

test('every link between the pages leads to something', async () => {
  const docs = (await readdir(join(project, 'docs'))).map((name) => `docs/${name}`);
  for (const page of ['README.md', 'examples/README.md', 'deploy/README.md', ...docs]) {
    const text = await readFile(join(project, page), 'utf8');
    for (const [, link = ''] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      expect([page, link, existsSync(join(project, dirname(page), link))]).toEqual([page, link, true]);
    }
  }
});

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

  test.each(pages)('every curl block of %s does what it says, pasted one after the other', async (page) => {
    const blocks = await readBlocks(page);
    expect(blocks.length).toBeGreaterThan(4);
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
