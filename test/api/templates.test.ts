import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse, stringify } from 'yaml';
import type { Box, Execution, Problem, Run, Template, TemplateDetail } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { ensureBoxImage } from '../../services/gateway/drivers/docker/daemon/image.ts';
import { readBuildContext } from '../../services/gateway/drivers/host/build-context.ts';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway, streamOf } from './harness.ts';

const folder = resolve(import.meta.dirname, '../../images/box-r');
const buildDeadlineMs = 15 * 60_000;

/** Builds the image with R on top of the box image of these tests. */
const prepareImage = async (): Promise<string> => {
  const buildArgs = { BOX_IMAGE: process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest' };
  const context = await readBuildContext(folder, { buildArgs });
  const signal = AbortSignal.timeout(buildDeadlineMs);
  return await ensureBoxImage(createDaemon(), context, {
    repository: 'codebox-box-r',
    buildArgs,
    log: () => {},
    signal,
  });
};

/** Writes a copy of the templates file that names the image of these tests. */
const writeTemplates = async (image: string): Promise<string> => {
  const templates = parse(await readFile(join(folder, 'templates.yaml'), 'utf8'));
  templates.python = {};
  templates.r.image = image;
  const place = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
  await writeFile(join(place, 'templates.yaml'), stringify(templates));
  return join(place, 'templates.yaml');
};

const startWith = async (driver: string, image: string) => {
  const file = await writeTemplates(image);
  const gateway = await startGateway(driver, { CODEBOX_TEMPLATES: file });
  return {
    gateway,
    dispose: async () => {
      await gateway.dispose();
      await rm(resolve(file, '..'), { recursive: true });
    },
  };
};

describe.each(anyDriver)('templates on the %s driver', (driver) => {
  let started: Awaited<ReturnType<typeof startWith>>;
  let gateway: RunningGateway;
  beforeAll(async () => {
    started = await startWith(driver, 'codebox-box-r:none');
    gateway = started.gateway;
  });
  afterAll(() => started?.dispose());

  test('templates can be listed and read with languages, limits and network, and without their images', async () => {
    const list = async () => (await gateway.get<{ items: Template[] }>('/v1/templates')).body.items;
    expect((await list()).map(({ name, language, languages }) => [name, language, languages])).toEqual([
      ['python', 'python', null],
      ['r', 'r', null],
    ]);
    await gateway.createBox();
    const items = await list();
    expect(items[0]).toMatchObject({ languages: ['python', 'javascript', 'typescript', 'bash'], network: 'none' });
    expect(items[1]).toMatchObject({ languages: null });
    expect(JSON.stringify(items)).not.toContain('codebox-box');
    expect((await gateway.get('/v1/templates/r')).body).toEqual({ ...items[1], packages: null, programs: null });
    const { packages, programs } = (await gateway.get<TemplateDetail>('/v1/templates/python')).body;
    expect(packages).toContainEqual({ name: 'pandas', version: '2.3.3' });
    expect(programs?.find(({ name }) => name === 'git')?.version).toMatch(/^\d+\./);
    expect((await gateway.get('/v1/templates/nothing')).status).toBe(404);
  });

  test('a language that the template lacks is refused with the names of its languages', async () => {
    const box = await gateway.createBox();
    for (const [path, body] of [
      [`/v1/boxes/${box.id}/executions`, { code: '1', language: 'r' }],
      [`/v1/boxes/${box.id}/contexts`, { language: 'r' }],
      ['/v1/run', { code: '1', language: 'r' }],
      ['/v1/run', { code: '1', language: 'r', stdin: '' }],
    ] as const) {
      const { status, body: problem } = await gateway.post<Problem>(path, body);
      expect([status, problem.errors?.[0]?.pointer]).toEqual([400, '/language']);
      expect(problem.errors?.[0]?.detail).toContain('python, javascript, typescript, bash');
    }
    expect((await gateway.run(box.id, '6 * 7')).text).toBe('42');
  });

  const testLocal = driver === 'local' ? test : () => {};
  testLocal('the local driver refuses templates with their own image, and runs the others', async () => {
    for (const [path, body] of [
      ['/v1/boxes', { template: 'r' }],
      ['/v1/run', { template: 'r', language: 'r', code: '1' }],
    ] as const) {
      const { status, body: problem } = await gateway.post<Problem>(path, body);
      expect([status, problem.errors?.[0]?.pointer]).toEqual([400, '/template']);
      expect(problem.errors?.[0]?.detail).toContain('local driver');
    }
    expect((await gateway.createBox()).state).toBe('ready');
  });
});

test.runIf(drivers.includes('docker'))(
  'a missing image is logged at the start, and its boxes are refused for good',
  async () => {
    const image = 'codebox-box-r:none';
    const { gateway, dispose } = await startWith('docker', image);
    onTestFinished(dispose);
    expect(gateway.output()).toContain(`"template":"r","image":"${image}"`);
    const refused = await gateway.post<Problem>('/v1/boxes', { template: 'r' });
    expect(refused).toMatchObject({ status: 503, body: { code: 'unavailable', reason: 'image_unavailable' } });
    expect(refused.body.detail).not.toContain(image);
    expect(refused.headers.has('retry-after')).toBe(false);
  },
);

describe.runIf(drivers.includes('docker'))('R, a language that only an image defines', () => {
  let started: Awaited<ReturnType<typeof startWith>>;
  let gateway: RunningGateway;
  let box: Box;
  const run = (code: string, more = {}): Promise<Execution> => gateway.run(box.id, code, { language: 'r', ...more });
  beforeAll(async () => {
    started = await startWith('docker', await prepareImage());
    gateway = started.gateway;
    box = await gateway.createBox({ template: 'r' });
  }, buildDeadlineMs);
  afterAll(() => started?.dispose());

  test('is listed once a box has shown it', async () => {
    const { language, languages } = (await gateway.get<Template>('/v1/templates/r')).body;
    expect([language, languages]).toEqual(['r', ['r', 'python', 'javascript', 'typescript', 'bash']]);
  });

  test('keeps its variables, and its last value is the result', async () => {
    const first = await gateway.run(box.id, 'x <- 41');
    expect(first).toMatchObject({ status: 'ok', language: 'r', text: null, outputs: [] });
    const second = await run('x + 1');
    expect(second).toMatchObject({ status: 'ok', text: '[1] 42', context: first.context, stateLost: false });
    const many = await run('1\nprint("two")\n3');
    expect(many.outputs?.map(({ type }) => type)).toEqual(['display', 'stdout', 'result']);
    expect(many.text).toBe('[1] 3');
  });

  test('shows data frames as tables and draws PNG, base and ggplot2 alike', async () => {
    const table = await run('data.frame(a = 1:2, b = c("x", "y"))');
    expect(String(table.outputs?.[0]?.type === 'result' && table.outputs[0].mime['text/html'])).toContain('<table');
    for (const code of ['plot(1:3)', 'library(ggplot2)\nggplot(data.frame(a = 1:3), aes(a, a)) + geom_point()']) {
      const drawn = await run(code, { timeoutSeconds: 60 });
      const figure = drawn.outputs?.find(({ type }) => type === 'display');
      expect(figure?.type === 'display' && figure.mime['image/png']).toMatch(/^iVBORw0K[A-Za-z0-9+/]*=*$/);
    }
  });

  test('reports errors with name, value and traceback, and has a separate stderr', async () => {
    const failed = await run('f <- function() stop("no luck")\nmessage("careful")\nf()');
    expect(failed.status).toBe('error');
    expect(failed.error).toMatchObject({ name: 'simpleError', value: 'no luck' });
    expect(failed.error?.traceback.map((line) => line.split('\n')[0])).toEqual([
      'Error in f(): no luck',
      '1. f()',
      expect.stringContaining('2. stop("no luck")'),
    ]);
    const own = await run(
      'stop(structure(class = c("own", "error", "condition"), list(message = "odd", call = NULL)))',
    );
    expect(own).toMatchObject({ status: 'error', error: { name: 'own', value: 'odd' } });
    expect(streamOf(failed.outputs, 'stderr')).toContain('careful');
  });

  test('requests input', async () => {
    const path = `/v1/boxes/${box.id}/executions`;
    const body = { code: 'name <- readline("Who? "); name', language: 'r', detach: true };
    const { body: started } = await gateway.post<Execution>(path, body);
    await eventually(async () => {
      const { outputs } = (await gateway.get<Execution>(`${path}/${started.id}`)).body;
      return outputs?.some((event) => event.type === 'input_request' && event.prompt === 'Who? ');
    });
    await gateway.post(`${path}/${started.id}/input`, { text: 'Ada' });
    const read = async () => (await gateway.get<Execution>(`${path}/${started.id}`)).body;
    const done = await eventually(async () => {
      const found = await read();
      return found.status !== 'running' && found;
    });
    expect(done).toMatchObject({ status: 'ok', text: '[1] "Ada"' });
  });

  test('takes an environment for one run, and reports changed files', async () => {
    const code = 'writeLines(Sys.getenv("COLOUR"), "colour.txt"); Sys.getenv("COLOUR")';
    const set = await run(code, { env: { COLOUR: 'green' } });
    expect(set).toMatchObject({ text: '[1] "green"', files: { created: ['colour.txt'] } });
    expect((await run('Sys.getenv("COLOUR", unset = NA)')).text).toBe('[1] NA');
  });

  test('keeps its variables over interrupts and time limits, and reports when they are lost', async () => {
    await run('kept <- 7');
    const path = `/v1/boxes/${box.id}/executions`;
    const { body } = await gateway.post<Execution>(path, { code: 'while (TRUE) {}', language: 'r', detach: true });
    await eventually(async () => (await gateway.get<Execution>(`${path}/${body.id}`)).body.context !== null);
    expect((await gateway.call(`${path}/${body.id}/interrupt`, { method: 'POST' })).status).toBe(202);
    const ended = await eventually(async () => {
      const { body: found } = await gateway.get<Execution>(`${path}/${body.id}`);
      return found.status !== 'running' && found;
    });
    expect(ended).toMatchObject({ status: 'interrupted', stateLost: false });
    expect(await run('Sys.sleep(60)', { timeoutSeconds: 1 })).toMatchObject({ status: 'timeout', stateLost: false });
    expect((await run('kept')).text).toBe('[1] 7');
    const killed = await run('tools::pskill(Sys.getpid(), tools::SIGKILL)');
    expect(killed).toMatchObject({ status: 'killed', stateLost: true });
    expect(await run('exists("kept")')).toMatchObject({ status: 'ok', text: '[1] FALSE', stateLost: false });
  });

  test('shares files with the other languages of its box, and can run as a program', async () => {
    await run('write.csv(data.frame(n = 1:3), "n.csv", row.names = FALSE)');
    const python = await gateway.run(box.id, 'import csv; sum(int(r["n"]) for r in csv.DictReader(open("n.csv")))', {
      language: 'python',
    });
    expect(python.text).toBe('6');
    const code = 'cat(toupper(readLines("stdin")), commandArgs(TRUE))';
    const request = { template: 'r', language: 'r', code, stdin: 'hi\n', args: ['a b'] };
    const once = await gateway.post<Run>('/v1/run', request);
    expect(once.body).toMatchObject({ status: 'ok', exitCode: 0, stdout: 'HI a b' });
  });
});
