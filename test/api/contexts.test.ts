import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Context, Problem, Variable } from '#contract';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway, streamOf, usualBoxes } from './harness.ts';

const loaded = 'import sys; "matplotlib.pyplot" in sys.modules';
/** Kills the fork server, the only process of a box with this OOM score: kernels have a higher one. */
const killForkServer = `
import glob, os, signal
for path in glob.glob("/proc/[0-9]*/oom_score_adj"):
    if open(path).read().strip() == "900": os.kill(int(path.split("/")[2]), signal.SIGKILL); print("killed")
`;

describe.each(drivers)('contexts on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  const made: string[] = [];
  beforeAll(async () => {
    gateway = await startGateway(driver, usualBoxes);
    box = await gateway.createBox({ env: { SHARED: 'of the box' } });
    await gateway.call(path(box).replace('/contexts', '/files'), {
      method: 'POST',
      body: JSON.stringify({ op: 'mkdir', path: 'sub/folder' }),
    });
    await eventually(isLoaded, 60_000);
  });
  afterAll(() => gateway?.dispose());

  const path = (of: Box, rest = '') => `/v1/boxes/${of.id}/contexts${rest}`;
  const create = async (body: Record<string, unknown> = {}): Promise<Context> => {
    const response = await gateway.post<Context>(path(box), { language: 'python', ...body });
    expect(response.status).toBe(201);
    made.push(response.body.id);
    // A box has at most 16 contexts.
    if (made.length > 8) await remove(made.shift() ?? '');
    return response.body;
  };
  const remove = (id: string) => gateway.call(path(box, `/${id}`), { method: 'DELETE' });
  const run = (context: Context, code: string) => gateway.run(box.id, code, { context: context.id });
  const inNew = async (code: string) => {
    const context = await create();
    return run(context, code);
  };
  const isLoaded = async () => {
    if ((await inNew(loaded)).text === 'True') return true;
    // Each new kernel postpones the remaining preloading.
    await sleep(1000);
    return false;
  };
  const variables = async (context: Context, query = '') => {
    const response = await gateway.get<{ items: Variable[]; nextCursor: string | null }>(
      path(box, `/${context.id}/variables${query}`),
    );
    expect(response.status).toBe(200);
    return response.body;
  };

  test('a context shares neither variables, environment, folder nor random state with another', async () => {
    const [one, other] = [
      await create({ cwd: 'sub/folder', env: { OWN: '1' } }),
      await create({ language: undefined }),
    ];
    expect(other.language).toBe('python');
    expect([one.cwd, other.cwd]).toEqual(['sub/folder', '']);
    await run(one, 'x = 1; import os; os.environ["SET"] = "1"');
    const code =
      'import os, random, numpy; print(os.getcwd(), os.environ.get("OWN"), os.environ.get("SET"), "x" in dir())';
    expect(streamOf((await run(one, code)).outputs, 'stdout')).toBe('/mnt/data/sub/folder 1 1 True\n');
    expect(streamOf((await run(other, code)).outputs, 'stdout')).toBe('/mnt/data None None False\n');
    expect((await run(other, 'os.environ["SHARED"]')).text).toBe("'of the box'");
    const draw = 'import random, numpy; (random.random(), numpy.random.rand())';
    expect((await run(one, draw)).text).not.toBe((await run(other, draw)).text);
  });

  test('a context keeps its folder and environment over a restart', async () => {
    const context = await create({ cwd: 'sub', env: { OWN: 'kept' } });
    await run(context, 'x = 1');
    const restarted = await gateway.post<Context>(path(box, `/${context.id}/restart`), {});
    expect(restarted).toMatchObject({ status: 200, body: { id: context.id, cwd: 'sub' } });
    const result = await run(context, 'import os; (os.path.basename(os.getcwd()), os.environ["OWN"], "x" in dir())');
    expect(result.text).toBe("('sub', 'kept', False)");
  });

  testOnce('a missing or invalid folder is a 400 that points at it', async () => {
    await gateway.call(`/v1/boxes/${box.id}/files/file.txt`, { method: 'PUT', body: 'text' });
    for (const cwd of ['missing', 'file.txt', 'file.txt/below', 'sub/../sub', '/etc', '']) {
      const refused = await gateway.post<Problem>(path(box), { language: 'python', cwd });
      expect(refused).toMatchObject({ status: 400, body: { errors: [{ pointer: '/cwd' }] } });
    }
    const env = await gateway.post<Problem>(path(box), { language: 'python', env: { 'NO NAME': '' } });
    expect(env.status).toBe(400);
  });

  testOnce('the restart of a context whose folder is gone is a 409', async () => {
    const context = await create({ cwd: 'sub/folder' });
    await gateway.run(box.id, 'import os; os.rename("sub/folder", "sub/moved")');
    expect((await gateway.post(path(box, `/${context.id}/restart`), {})).status).toBe(409);
    await gateway.run(box.id, 'os.rename("sub/moved", "sub/folder")');
    expect((await gateway.post(path(box, `/${context.id}/restart`), {})).status).toBe(200);
  });

  test('killing the fork server ends no kernel, new kernels start, and their deaths are reported', async () => {
    const context = await create();
    await run(context, 'x = 5');
    expect(streamOf((await run(context, killForkServer)).outputs, 'stdout')).toBe('killed\n');
    expect((await inNew('1 + 1')).text).toBe('2');
    expect((await run(context, 'x')).text).toBe('5');
    const killed = await run(context, 'import os; os.kill(os.getpid(), 9)');
    expect(killed).toMatchObject({ status: 'killed', stateLost: true, cause: { signal: 'SIGKILL' } });
    const ended = await run(context, 'import os; os._exit(3)');
    expect(ended).toMatchObject({ status: 'killed', cause: { code: 'exit', exitCode: 3 } });
    expect((await run(context, '1 + 1')).text).toBe('2');
    await eventually(isLoaded, 60_000);
  });

  test('a package installed while a box runs is found by new kernels', async () => {
    const context = await create();
    const install = `
import os, site
os.makedirs(site.getusersitepackages(), exist_ok=True)
open(site.getusersitepackages() + "/latecomer.py", "w").write("value = 7")`;
    expect((await run(context, install)).status).toBe('ok');
    expect((await inNew('import latecomer; latecomer.value')).text).toBe('7');
  });

  testOnce('variables can be listed without a run', async () => {
    const context = await create();
    const code = 'import pandas as pd\nfrom math import sqrt\nnumber, table = 41, pd.DataFrame({"a": [1, 2, 3]})';
    const first = await run(context, code);
    const { items } = await variables(context);
    expect(items.map(({ name }) => name)).toEqual(['number', 'table']);
    expect(items[0]).toMatchObject({ type: 'int', preview: '41' });
    expect(items[1]).toMatchObject({ type: 'DataFrame', shape: [3, 1], length: 3 });
    expect((await run(context, 'number')).executionCount).toBe((first.executionCount ?? 0) + 1);
    const page = await variables(context, '?limit=1');
    expect((await variables(context, `?limit=1&cursor=${page.nextCursor}`)).items[0]?.name).toBe('table');
    expect((await gateway.get(path(box, `/${context.id}/variables?cursor=*`))).status).toBe(400);
    expect((await gateway.get(path(box, '/none/variables'))).status).toBe(404);
  });

  testOnce('listing the variables of a busy context is a 409', async () => {
    const context = await create();
    const body = { code: 'import time; time.sleep(60)', context: context.id, detach: true };
    const started = await gateway.post<{ id: string }>(`/v1/boxes/${box.id}/executions`, body);
    const refused = await gateway.get<Problem>(path(box, `/${context.id}/variables`));
    expect(refused).toMatchObject({ status: 409, body: { code: 'conflict', reason: 'context_busy' } });
    await gateway.post(`/v1/boxes/${box.id}/executions/${started.body.id}/interrupt`, {});
  });

  testOnce('variables whose repr is hostile are listed within bounds and without side effects', async () => {
    const context = await create();
    const code = `
import os, time
class Raises:
    def __repr__(self): raise SystemExit(9)
    def __len__(self): raise KeyboardInterrupt
class Loops:
    def __repr__(self):
        while True:
            try: time.sleep(1)
            except BaseException: pass
class Huge:
    def __repr__(self): return "x" * (1 << 30)
class Changes:
    def __repr__(self):
        global z
        z = "changed"
        print("noise")
        return "\\ud800" + "\\0"
a, b, c, d, z = Raises(), Loops(), Huge(), Changes(), 7`;
    await run(context, code);
    const { items } = await variables(context);
    const of = (name: string) => items.find((item) => item.name === name);
    expect(of('a')?.preview).toBe('<Raises object>');
    expect(of('b')?.preview).toBe('<Loops object>');
    expect(of('c')?.preview.length).toBeLessThan(1000);
    expect(of('d')?.type).toBe('Changes');
    expect(of('z')?.preview).toBe('7');
    const after = await run(context, 'z');
    expect(after).toMatchObject({ status: 'ok', text: '7', outputs: [{ type: 'result' }] });
  });

  test.each([
    [
      'javascript',
      'const list = [1, 2]; let word = "a"',
      { name: 'list', type: 'Array', length: 2, preview: '[1, 2]' },
    ],
    ['bash', 'list=(a b)', { name: 'list', type: 'array', length: 2, preview: '(a b)' }],
  ])('variables of %s can be listed', async (language, code, expected) => {
    const context = await create({ language });
    await run(context, code);
    expect((await variables(context)).items[0]).toMatchObject(expected);
  });
});
