import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { Box, Problem, Run } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { ensureBoxImage } from '../../services/gateway/drivers/docker/daemon/image.ts';
import { readBuildContext } from '../../services/gateway/drivers/host/build-context.ts';
import { drivers, type RunningGateway, startGateway } from './harness.ts';

const buildDeadlineMs = 15 * 60_000;
const spec = (...argv: string[]) => JSON.stringify({ argv: [...argv, '{connection_file}'], display_name: 'kernel' });

/** A kernel that reports errors in its replies alone, as those of metakernel do. */
const replying = `
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class ReplyingKernel(Kernel):
    implementation = banner = "replying"
    implementation_version = "1"
    language_info = {"name": "replying", "mimetype": "text/plain", "file_extension": ".txt"}

    async def do_execute(self, code, silent, *args, **more):
        return {"status": "error", "execution_count": 1, "ename": "Refusal", "evalue": code, "traceback": ["line 1"]}

IPKernelApp.launch_instance(kernel_class=ReplyingKernel)
`;

const files = {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Docker substitutes it.
  Dockerfile: 'ARG BOX_IMAGE=codebox-box:latest\nFROM ${BOX_IMAGE}\nCOPY kernels /opt/codebox/share/kernels\n',
  'kernels/missing/kernel.json': spec('perl6'),
  'kernels/broken/kernel.json': '{\n  "argv":\n}',
  'kernels/dying/kernel.json': spec('python', '-c', 'import nothing_like_it'),
  'kernels/replying/kernel.json': spec('python', '-P', '{resource_dir}/kernel.py', '-f'),
  'kernels/replying/kernel.py': replying,
};

/** Builds the box image with these kernels. */
const prepareImage = async (folder: string): Promise<string> => {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const buildArgs = { BOX_IMAGE: process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest' };
  return await ensureBoxImage(createDaemon(), await readBuildContext(folder, { buildArgs }), {
    repository: 'codebox-box-kernels',
    buildArgs,
    log: () => {},
    signal: AbortSignal.timeout(buildDeadlineMs),
  });
};

describe.runIf(drivers.includes('docker'))('kernels of an image', () => {
  let folder: string;
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'codebox-kernels-'));
    const templates = { python: {}, kernels: { image: await prepareImage(join(folder, 'image')) } };
    await writeFile(join(folder, 'templates.yaml'), stringify(templates));
    gateway = await startGateway('docker', { CODEBOX_TEMPLATES: join(folder, 'templates.yaml') });
    box = await gateway.createBox({ template: 'kernels' });
  }, buildDeadlineMs);
  afterAll(async () => {
    await gateway?.dispose();
    await rm(folder, { recursive: true });
  });

  test.each([
    ['missing', /^perl6: not found$/],
    ['broken', /^kernel\.json: Expecting value, line 3$/],
  ])('a kernel that cannot be started (%s) is reported by runs, executions and contexts', async (language, detail) => {
    const cause = { code: 'kernel_start', detail: expect.stringMatching(detail) };
    const run = await gateway.post<Run>('/v1/run', { template: 'kernels', language, code: '1' });
    expect([run.status, run.body]).toMatchObject([200, { status: 'killed', cause }]);
    expect(await gateway.run(box.id, '1', { language })).toMatchObject({ status: 'killed', cause, outputs: [] });
    const { status, body } = await gateway.post<Problem>(`/v1/boxes/${box.id}/contexts`, { language });
    expect([status, body]).toMatchObject([409, { code: 'conflict', reason: 'kernel_start', detail: cause.detail }]);
  });

  test('a kernel that ends at its start is reported with its traceback', async () => {
    const { status, cause } = await gateway.run(box.id, '1', { language: 'dying' });
    expect([status, cause?.code]).toEqual(['killed', 'kernel_start']);
    expect(cause?.detail).toMatch(/^the kernel ended with exit code 1 while it started: Traceback/);
    expect(cause?.detail).toContain("ModuleNotFoundError: No module named 'nothing_like_it'");
  });

  test('an error that a kernel sends in its reply alone is the error of the run', async () => {
    const { body } = await gateway.post<Run>('/v1/run', { template: 'kernels', language: 'replying', code: 'x' });
    expect(body).toMatchObject({ status: 'error', error: { name: 'Refusal', value: 'x', traceback: ['line 1'] } });
  });
});
