import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readTemplates, templateFields } from '../services/gateway/boxes/supply/templates.ts';
import { type RunningAgent, serveAgent } from './agent/agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './agent/model-server.ts';
import { anyDriver, type RunningGateway, startGateway } from './api/harness.ts';
import { adminKey } from './api/operator.ts';
import { type Block, pages, project, readAnchors, readBlocks, readPage } from './pages.ts';
import { openCheckout, pastePage } from './paste.ts';

const run = promisify(execFile);

const blocks = (await Promise.all(pages.map(readBlocks))).flat();
/** Pages with shell blocks that are run. */
const withScripts = [
  ...new Set(blocks.flatMap(({ page, language, notRun }) => (language === 'sh' && notRun === undefined ? [page] : []))),
];
const dialectOf = (page: string) => /^docs\/dialects\/(\w+)\.md$/.exec(page)?.[1];
/** Those whose blocks need only a running gateway and agent. CONTRIBUTING.md and clients/ have tests of their own. */
const runnable = withScripts.filter(
  (page) => !/^(CONTRIBUTING\.md$|clients\/)/.test(page) && dialectOf(page) === undefined,
);

test('README has at most 150 lines', async () => {
  expect((await readPage('README.md')).split('\n').length).toBeLessThanOrEqual(150);
});

test('every fenced block names its language, so that no shell block is overlooked', () => {
  const known = ['sh', 'json', 'yaml', 'ts', 'python', 'dockerfile', 'nginx', 'text'];
  const others = blocks.filter(({ language }) => !known.includes(language));
  expect(others.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
});

test.each(blocks.filter(({ notRun }) => notRun !== undefined))(
  'the block of $page:$line, which is not run ($notRun), is valid shell and names files that exist',
  async ({ page, text }) => {
    await run('bash', ['-n', '-c', text]);
    // The recipes of these pages write files of their own.
    const files = ['CONTRIBUTING.md', 'docs/packages.md'].includes(page)
      ? []
      : text.match(/(?<![\w./-])(?:deploy|examples|images)\/[\w./-]+/g);
    expect(files?.filter((file) => !existsSync(join(project, file))) ?? []).toEqual([]);
  },
);

test('every program in Python or TypeScript is on a page whose programs are run, below or in test/clients', () => {
  const isProgram = ({ language }: Block) => ['ts', 'python'].includes(language);
  expect([...new Set(blocks.filter(isProgram).map(({ page }) => page))]).toEqual([
    'README.md',
    'clients/python/README.md',
    'clients/typescript/README.md',
    'docs/agent.md',
    'docs/typescript.md',
  ]);
});

test.each(withScripts.flatMap((page) => dialectOf(page) ?? []))(
  'the shell blocks of the page of the dialect %s are run by its test, with its clients',
  async (name) => {
    const text = await readFile(join(project, `test/dialects/${name}.test.ts`), 'utf8');
    expect(text).toContain(`pasteDialectPage('${name}'`);
  },
);

test('docs/templates.md documents every field of a template, with an example that the gateway accepts', async () => {
  const text = await readPage('docs/templates.md');
  const [, example = ''] = /```yaml\n(.*?)```/s.exec(text) ?? [];
  const folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
  const file = join(folder, 'templates.yaml');
  await writeFile(file, example);
  expect([
    ...readTemplates({ templatesFile: file, boxImage: 'codebox-box', fullImage: undefined, warmBoxes: 0 }).keys(),
  ]).toEqual(['python', 'data']);
  await rm(folder, { recursive: true });
  const fields = [...text.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  expect(fields).toEqual(templateFields);
  expect(Object.keys((parse(example) as { data: object }).data)).toEqual(templateFields);
});

test('docs/configure.md lists exactly the variables that the services read', async () => {
  const sources = await Array.fromAsync(glob('services/**/{config,settings}.ts', { cwd: project }));
  const texts = await Promise.all(sources.map((source) => readFile(join(project, source), 'utf8')));
  const read = texts.flatMap((text) => [...text.matchAll(/^ {2}([A-Z]{2,}_[A-Z_]+): /gm)].map(([, name = '']) => name));
  expect(read.length).toBeGreaterThan(50);
  const text = await readPage('docs/configure.md');
  // Libraries also read variables of their own (AWS_*, AZURE_*, OTEL_*).
  const written = [...text.matchAll(/`(CODEBOX_[A-Z_]+)(?:=[^`]*)?`/g)].map(([, name = '']) => name);
  const elsewhere = /^OTEL_/; // docs/operate.md explains these.
  const operate = await readPage('docs/operate.md');
  expect(read.filter((name) => !(elsewhere.test(name) ? operate : text).includes(`\`${name}\``))).toEqual([]);
  expect(written.filter((name) => !read.includes(name) && name !== 'CODEBOX_AGENT')).toEqual([]);
});

test('every link between the pages leads to an existing page and anchor', async () => {
  const broken: string[] = [];
  for (const page of pages) {
    for (const [, link = ''] of (await readPage(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : normalize(join(dirname(page), path));
      const isThere = existsSync(join(project, target));
      if (isThere && (anchor === undefined || (await readAnchors(target)).includes(anchor))) continue;
      broken.push(`${page}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
});

test('every page that the code names exists', async () => {
  const sources = glob(['{services,scripts,images,deploy,test}/**/*.{ts,tsx,py,mjs,sh,yaml}'], {
    cwd: project,
    exclude: (name) => name.includes('node_modules'),
  });
  for await (const source of sources)
    for (const [name] of (await readFile(join(project, source), 'utf8')).matchAll(/\bdocs\/[\w/-]+\.md\b/g))
      expect([source, name, existsSync(join(project, name))]).toEqual([source, name, true]);
});

// Boxes behave the same on each driver, which other tests check.
describe.each(anyDriver)('the documentation on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let agent: RunningAgent;
  let model: ModelServer;
  let checkout: Awaited<ReturnType<typeof openCheckout>>;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey });
    model = await startModelServer();
    agent = await serveAgent(gateway, { CODEBOX_MODEL_URL: `${model.url}/v1`, CODEBOX_MODEL: 'compatible/scripted' });
    checkout = await openCheckout(gateway);
  });
  afterAll(async () => {
    await agent?.dispose();
    await model?.[Symbol.asyncDispose]();
    await gateway?.dispose();
    await checkout?.[Symbol.asyncDispose]();
  });

  test.each(runnable)(
    'the shell blocks of %s, pasted one after the other, print their documented output',
    async (page) => {
      if (['README.md', 'docs/agent.md'].includes(page))
        model.script(runs('import pandas\npandas.read_csv("sales.csv").sales.sum()'), { text: '12 were sold.' });
      const replaced = { 'http://localhost:8080': gateway.url, 'http://localhost:8090': agent.url };
      await pastePage(page, { cwd: checkout.folder, env: { CODEBOX_ADMIN_KEY: adminKey }, replaced });
    },
  );

  /** Runs the programs of a page in TypeScript, with the lines that readers have around them. Resolves with what they print. */
  const runPrograms = async (page: string, { before = '', behind = '' }): Promise<string> => {
    const programs = (await readBlocks(page)).filter(({ language }) => language === 'ts').map(({ text }) => text);
    const program = [before, ...programs, behind]
      .join('\n')
      .replaceAll('http://localhost:8080', gateway.url)
      .replaceAll('http://localhost:8090', agent.url)
      .replaceAll('openai/gpt-5', 'compatible/scripted');
    await writeFile(join(checkout.folder, 'program.ts'), program);
    const options = { cwd: checkout.folder, env: { ...process.env, CODEBOX_KEY: gateway.key }, timeout: 60_000 };
    return (await run(process.execPath, ['program.ts'], options)).stdout;
  };

  test('the program of docs/typescript.md prints what its box prints', async () => {
    expect(await runPrograms('docs/typescript.md', { before: 'const key = process.env.CODEBOX_KEY ?? "";' })).toBe(
      'hello\n',
    );
  });

  test('the program of docs/agent.md gets an answer that has run code', async () => {
    model.script(runs('6 * 7'), { text: 'It is done.' });
    const answer = await runPrograms('docs/agent.md', {
      before: "import OpenAI from 'openai';",
      behind: 'console.log(output_text, output.map(({ type }) => type));',
    });
    expect(answer).toContain('It is done.');
    expect(answer).toContain('code_interpreter_call');
  });
});
