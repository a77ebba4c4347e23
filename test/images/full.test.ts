import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:http';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Command, TemplateDetail } from '#contract';
import { prepareFullImage } from '../../scripts/docker-image.ts';
import { drivers, type RunningGateway, startGateway, usualBoxes } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { downloadWheels } from '../api/wheels.ts';

const images = resolve(import.meta.dirname, '../../images');
const buildDeadlineMs = 30 * 60_000;

/** The Python cells of `jobs.txt`, by their headings. */
const jobs = (await readFile(resolve(import.meta.dirname, 'jobs.txt'), 'utf8'))
  .split(/^# %% /m)
  .slice(1)
  .map((cell) => [cell.slice(0, cell.indexOf('\n')), cell.slice(cell.indexOf('\n') + 1)] as const);

/** The names of the packages that both lists of requirements name. */
const wanted = async (): Promise<string[]> => {
  const lists = await Promise.all(
    ['box', 'box-full'].map((name) => readFile(`${images}/${name}/requirements.in`, 'utf8')),
  );
  return lists.flatMap((text) => [...text.matchAll(/^[a-z][\w-]*/gim)].map(([name]) => name));
};

/** Imports one module of each distribution, and prints those that fail. */
const importAll = (names: readonly string[]) => `
import importlib, importlib.metadata, re, warnings
warnings.simplefilter("ignore")
modules = {}
for module, distributions in importlib.metadata.packages_distributions().items():
    for name in distributions:
        modules.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(module)
failed = {}
for name in ${JSON.stringify(names)}:
    found = [module for module in modules.get(re.sub(r"[-_.]+", "-", name).lower(), []) if module.isidentifier() and module[0] != "_"]
    try:
        importlib.import_module(min(found, key=len))
    except BaseException as error:
        failed[name] = repr(error)
failed`;

const wantedPrograms =
  `7z chromium convert dot ffmpeg g++ gcc gs java make pandoc pdflatex pdftotext qpdf rsync soffice tesseract
  xelatex`.split(/\s+/);

describe.runIf(drivers.includes('docker'))('the full image', () => {
  let gateway: RunningGateway;
  let box: Box;
  let wheels: Awaited<ReturnType<typeof downloadWheels>>;
  beforeAll(async () => {
    wheels = await downloadWheels('numpy==1.26.4', 'pandas==2.2.0');
    const signal = AbortSignal.timeout(buildDeadlineMs);
    const image = await prepareFullImage(process.env, { log: () => {}, signal });
    const settings = { CODEBOX_FULL_IMAGE: image, CODEBOX_WHEELS_DIR: wheels.folder };
    gateway = await startGateway('docker', { ...settings, ...usualBoxes });
    box = await gateway.createBox({ template: 'full', limits: { cpus: 2, memoryMb: 3072, diskMb: 2048 } });
  }, buildDeadlineMs);
  afterAll(async () => {
    await gateway?.dispose();
    await wheels?.[Symbol.asyncDispose]();
  });

  test.each(jobs)('does this job: %s', async (_name, code) => {
    const { status, error, outputs } = await gateway.run(box.id, code, { timeoutSeconds: 120 });
    expect([status, error?.value, status === 'ok' ? [] : outputs]).toEqual(['ok', undefined, []]);
  });

  test('has every program that its template lists', async () => {
    const { programs, packages } = (await gateway.get<TemplateDetail>('/v1/templates/full')).body;
    expect(packages?.map(({ name }) => name)).toContain('moviepy');
    const known = Object.fromEntries((programs ?? []).map(({ name, version }) => [name, version]));
    expect(Object.keys(known)).toEqual(expect.arrayContaining(wantedPrograms));
    expect(Object.entries(known).filter(([, version]) => !/\d/.test(version))).toEqual([]);
  });

  test('has every package that its lists name', async () => {
    const { text, error } = await gateway.run(box.id, importAll(await wanted()), { timeoutSeconds: 300 });
    expect([error?.value, text]).toEqual([undefined, '{}']);
  });

  test('serves a page of gradio on a port, whose function responds', async () => {
    const code = `import gradio
page = gradio.Interface(lambda name: f"Hello {name}", "text", "text", api_name="greet")
page.launch(server_port=7860, prevent_thread_lock=True, quiet=True, inline=False)`;
    expect((await gateway.run(box.id, code, { timeoutSeconds: 240 })).error).toBeNull();
    const host = `7860-${box.id}.${new URL(gateway.url).host.replace('127.0.0.1', 'localhost')}`;
    const at = (path: string, more: RequestOptions = {}, body?: string) =>
      rawRequest(gateway, path, { ...more, headers: { host, 'content-type': 'application/json' } }, body);
    // The page calls this address.
    expect((await at('/')).text).toContain(`"root":"http://${host}"`);
    const asked = await at('/gradio_api/call/greet', { method: 'POST' }, '{"data": ["Ada"]}');
    const answer = await at(`/gradio_api/call/greet/${JSON.parse(asked.text).event_id}`);
    expect(answer.text).toContain('data: ["Hello Ada"]');
    await gateway.run(box.id, 'page.close()');
    // On a busy machine gradio takes more than a minute to load.
  }, 300_000);

  test('uses an older NumPy and pandas once they are installed', async () => {
    const install = { packages: ['numpy==1.26.4', 'pandas==2.2.0'] };
    const { body } = await gateway.post<Command>(`/v1/boxes/${box.id}/packages`, install);
    expect([body.status, body.hint?.code]).toEqual(['ok', 'restart_kernel']);
    const context = (await gateway.run(box.id, '1')).context;
    await gateway.post(`/v1/boxes/${box.id}/contexts/${context}/restart`, {});
    const code = 'import numpy, pandas\n(numpy.__version__, pandas.__version__, pandas.Series([1, 2]).sum())';
    expect((await gateway.run(box.id, code)).text).toContain("('1.26.4', '2.2.0', ");
  });
});
