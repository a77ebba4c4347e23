import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Box,
  type Command,
  commandEventSchema,
  type Execution,
  type Package,
  type Page,
  type Problem,
  type Run,
} from '#contract';
import { anyDriver, drivers, eventually, type RunningGateway, readEvents, startGateway } from './harness.ts';
import { downloadWheels } from './wheels.ts';

let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  wheels = await downloadWheels('cowsay', 'python-dotenv', 'pyserial');
});
afterAll(() => wheels?.[Symbol.asyncDispose]());

describe.each(drivers)('packages on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_WHEELS_DIR: wheels.folder });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const path = (id = box.id) => `/v1/boxes/${id}/packages`;
  const install = async (body: Record<string, unknown>, id = box.id) => await gateway.post<Command>(path(id), body);
  const types = (execution: Execution) => (execution.outputs ?? []).map(({ type }) => type);

  test('an installed package can be imported at once, survives a restart of the kernel, and is reported', async () => {
    const before = await gateway.run(box.id, 'import cowsay');
    expect(before.error).toMatchObject({
      name: 'ModuleNotFoundError',
      hint: { code: 'install_package', manager: 'pip', package: 'cowsay', module: 'cowsay' },
    });
    const { status, body } = await install({ packages: ['cowsay'] });
    expect([status, body.status, body.exitCode]).toEqual([200, 'ok', 0]);
    expect(body.installed).toEqual([{ name: 'cowsay', version: expect.stringMatching(/^\d/) }]);
    expect(body.stdout).toContain('Successfully installed cowsay');
    const context = (await gateway.run(box.id, 'import cowsay; cowsay.__name__')).context;
    expect((await gateway.post(`/v1/boxes/${box.id}/contexts/${context}/restart`, {})).status).toBe(200);
    expect((await gateway.run(box.id, 'import cowsay; cowsay.__name__')).text).toBe("'cowsay'");
    const again = await install({ packages: ['cowsay'] });
    expect(again.body).toMatchObject({ status: 'ok', installed: [] });
    const command = { command: 'python -c "import cowsay; print(7)"' };
    expect((await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, command)).body.stdout).toBe('7\n');
  });

  testOnce('the list contains the packages of the image and the installed ones, by name and in pages', async () => {
    await install({ packages: ['cowsay'] });
    const all: Package[] = [];
    for (let cursor = ''; ; ) {
      const page = await gateway.get<Page<Package>>(`${path()}?limit=50${cursor && `&cursor=${cursor}`}`);
      expect(page.status).toBe(200);
      all.push(...page.body.items);
      if (page.body.nextCursor === null) break;
      cursor = page.body.nextCursor;
    }
    const names = all.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)].sort());
    expect(all.find(({ name }) => name === 'cowsay')?.source).toBe('user');
    expect(all.find(({ name }) => name === 'pandas')).toEqual({ name: 'pandas', version: '2.3.3', source: 'image' });
    expect((await gateway.get(`${path()}?manager=npm`)).body).toEqual({ items: [], nextCursor: null });
  });

  testOnce('an installation can be streamed and resumed, and runs once per Idempotency-Key', async () => {
    const body = JSON.stringify({ packages: ['python-dotenv'] });
    const headers = { accept: 'application/x-ndjson', 'idempotency-key': 'install-1' };
    const first = await gateway.call(path(), { method: 'POST', headers, body });
    const parse = async (response: Response) =>
      (await response.text()).split('\n').flatMap((line) => (line ? [commandEventSchema.parse(JSON.parse(line))] : []));
    const events = await parse(first);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    const done = events.at(-1);
    expect(done).toMatchObject({ type: 'done', exitCode: 0, installed: [{ name: 'python-dotenv' }] });
    const location = first.headers.get('content-location');
    expect(await parse(await gateway.call(`${location}/events?after=1`))).toEqual(events.slice(1));
    const again = await gateway.call(path(), { method: 'POST', headers, body });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await parse(again)).toEqual(events);
    const sse = await gateway.call(path(), { method: 'POST', headers: { accept: 'text/event-stream' }, body });
    expect(await sse.text()).toContain('event: done');
  });

  testOnce('a detached installation can be followed as a command', async () => {
    const started = await install({ packages: ['cowsay'], detach: true });
    expect(started.status).toBe(202);
    const own = `/v1/boxes/${box.id}/commands/${started.body.id}`;
    const ended = await eventually(async () => {
      const { body } = await gateway.get<Command>(own);
      return body.status !== 'running' && body;
    });
    expect(ended).toMatchObject({ status: 'ok', exitCode: 0, installed: [] });
  });

  testOnce('a failing installer is a 200 with its exit code and output', async () => {
    const { status, body } = await install({ packages: ['cowsay==0.0.0.1'] });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'error', exitCode: 1, installed: [] });
    expect(body.stderr).toContain('No matching distribution');
  });

  /** Code that writes the wheel of a package with one module, which knows its version. */
  const wheelOf = (name: string, version: string) => `
import zipfile
info = "${name}-${version}.dist-info"
with zipfile.ZipFile("${name}-${version}-py3-none-any.whl", "w") as wheel:
    wheel.writestr("${name}.py", "__version__ = '${version}'")
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: ${name}\\nVersion: ${version}\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")`;

  test('another version of a package of the image takes its place, for new kernels and commands', async () => {
    const fresh = await gateway.createBox();
    await gateway.run(fresh.id, `import seaborn\n${wheelOf('seaborn', '0.0.1')}`);
    const { body } = await install({ packages: ['./seaborn-0.0.1-py3-none-any.whl'] }, fresh.id);
    expect([body.status, body.installed]).toEqual(['ok', [{ name: 'seaborn', version: '0.0.1' }]]);
    expect(body.hint).toMatchObject({ code: 'restart_kernel', package: 'seaborn', version: '0.13.2' });
    expect(body.hint?.detail).toContain('seaborn 0.0.1 (0.13.2)');
    const { text, context } = await gateway.run(fresh.id, 'seaborn.__version__');
    expect(text).toBe("'0.13.2'");
    await gateway.post(`/v1/boxes/${fresh.id}/contexts/${context}/restart`, {});
    expect((await gateway.run(fresh.id, 'import seaborn; seaborn.__version__')).text).toBe("'0.0.1'");
    const command = { command: 'python -c "import seaborn; print(seaborn.__version__)"' };
    expect((await gateway.post<Command>(`/v1/boxes/${fresh.id}/commands`, command)).body.stdout).toBe('0.0.1\n');
    const listed = (await gateway.get<Page<Package>>(`${path(fresh.id)}?limit=1000`)).body.items;
    expect(listed.find(({ name }) => name === 'seaborn')).toMatchObject({ version: '0.0.1', source: 'user' });
  });

  test('another version of what the kernels run on is refused with a hint that names the conflict', async () => {
    expect((await gateway.run(box.id, wheelOf('tornado', '4.0'))).error).toBeNull();
    const hint = { code: 'package_conflict', manager: 'pip', package: 'tornado', version: expect.stringMatching(/^6/) };
    const { status, body } = await install({ packages: ['./tornado-4.0-py3-none-any.whl'] });
    expect([status, body.status, body.installed]).toEqual([200, 'error', []]);
    expect(body.hint).toMatchObject(hint);
    const inCell = await gateway.run(box.id, 'pip install ./tornado-4.0-py3-none-any.whl', { language: 'bash' });
    expect(inCell.error).toMatchObject({ name: 'ExitStatus', hint });
  });

  testOnce('pip unpacks on the volume', async () => {
    const code = 'import os, pip._internal.cli.main as pip; pip.main(["config", "list"]); print(os.environ["TMPDIR"])';
    const command = { argv: ['python', '-c', code] };
    const { stdout } = (await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, command)).body;
    expect(stdout).toMatch(/^\/mnt\/home\/.+$/m);
  });

  test('a virtual environment of a box can have kernels', async () => {
    const command = { command: 'python -m venv --without-pip own' };
    expect((await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, command)).body.exitCode).toBe(0);
    const contexts = `/v1/boxes/${box.id}/contexts`;
    const { status, body: context } = await gateway.post<{ id: string }>(contexts, { python: 'own' });
    expect(status).toBe(201);
    expect((await gateway.run(box.id, 'import sys; sys.prefix', { context: context.id })).text).toBe("'/mnt/data/own'");
    const refused = await gateway.post<Problem>(contexts, { python: 'nowhere' });
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, '/python']);
    await gateway.call(`${contexts}/${context.id}`, { method: 'DELETE' });
  });

  test.each([
    ['an option', '-r requirements.txt'],
    ['an option with a value', '--index-url=http://evil'],
    ['a NUL', 'a\0b'],
    ['a second line', 'a\nb'],
    ['a leading space', ' -a'],
    ['nothing', ''],
    ['301 characters', 'a'.repeat(301)],
  ])('%s is refused as a package', async (_what, spec) => {
    const pointer = '/packages/1';
    const refused = await gateway.post<Problem>(path(), { packages: ['cowsay', spec] });
    expect(refused.status).toBe(400);
    expect(refused.body.errors).toEqual([{ pointer, detail: expect.any(String) }]);
    const noBox = await gateway.post<Problem>('/v1/boxes', { packages: ['cowsay', spec] });
    expect([noBox.status, noBox.body.errors?.[0]?.pointer]).toEqual([400, pointer]);
  });

  test('npm without a network is refused at once with the reason', async () => {
    const refused = await gateway.post<Problem>(path(), { manager: 'npm', packages: ['is-odd'] });
    expect([refused.status, refused.body.code]).toEqual([409, 'conflict']);
    expect(refused.body.detail).toContain('no network');
  });

  test('an npm package from the working folder can be imported by cells and commands', async () => {
    const code = `import os, json
os.makedirs('own/package'); json.dump({'name': 'own-thing', 'version': '1.2.3'}, open('own/package/package.json', 'w'))
open('own/package/index.js', 'w').write('module.exports = 42')`;
    await gateway.run(box.id, code);
    const missing = await gateway.run(box.id, "require('own-thing')", { language: 'javascript' });
    expect(missing.error?.hint).toMatchObject({ manager: 'npm', package: 'own-thing' });
    const done = await install({ manager: 'npm', packages: ['./own/package'] });
    expect(done.body).toMatchObject({ status: 'ok', installed: [{ name: 'own-thing', version: '1.2.3' }] });
    expect((await gateway.run(box.id, "require('own-thing')", { language: 'javascript' })).text).toBe('42');
    const imported = "import thing from 'own-thing'\nthing + 1";
    expect((await gateway.run(box.id, imported, { language: 'typescript' })).text).toBe('43');
    const command = { command: `node -e "console.log(require('own-thing'))"` };
    expect((await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, command)).body.stdout).toBe('42\n');
  });

  test('autoInstall installs a missing package and reruns the cell within one execution', async () => {
    const fresh = await gateway.createBox();
    await gateway.run(fresh.id, 'kept = 1');
    const code = '"""Says hello."""\nimport os\nimport cowsay\n(kept, cowsay.__name__)';
    const response = await gateway.call(`/v1/boxes/${fresh.id}/executions`, {
      method: 'POST',
      headers: { accept: 'application/x-ndjson' },
      body: JSON.stringify({ code, autoInstall: true }),
    });
    const events = [];
    for await (const event of readEvents(response)) events.push(event);
    expect(events.map(({ type }) => type)).toEqual(['started', 'install', 'result', 'done']);
    expect(events[1]).toMatchObject({ manager: 'pip', packages: [{ name: 'cowsay' }], exitCode: 0 });
    expect(events[2]).toMatchObject({ mime: { 'text/plain': "(1, 'cowsay')" } });
    expect(events[3]).toMatchObject({ status: 'ok', stateLost: false });
  });

  testOnce('autoInstall reruns no cell that may have had an effect', async () => {
    const fresh = await gateway.createBox();
    const code = 'open("runs", "a").write("x")\nimport cowsay';
    const execution = await gateway.run(fresh.id, code, { autoInstall: true });
    expect(execution).toMatchObject({ status: 'error', error: { hint: { package: 'cowsay' } } });
    expect(types(execution)).toEqual(['error']);
    expect(await (await gateway.call(`/v1/boxes/${fresh.id}/files/runs`)).text()).toBe('x');
    await gateway.run(fresh.id, 'open("own.py", "w").write("open(\'runs\', \'a\').write(\'y\')\\nimport cowsay")');
    const nested = await gateway.run(fresh.id, 'import own', { autoInstall: true });
    expect(types(nested)).toEqual(['error']);
    expect(await (await gateway.call(`/v1/boxes/${fresh.id}/files/runs`)).text()).toBe('xy');
    const printed = await gateway.run(fresh.id, 'print(1)\nimport cowsay', { autoInstall: true });
    expect(types(printed)).toEqual(['stdout', 'error']);
  });

  testOnce('autoInstall of an unknown package ends with the error and its hint', async () => {
    const execution = await gateway.run(box.id, 'import no_such_module_anywhere', { autoInstall: true });
    expect(types(execution)).toEqual(['install', 'error']);
    expect(execution).toMatchObject({
      status: 'error',
      error: { name: 'ModuleNotFoundError', hint: { package: 'no-such-module-anywhere' } },
    });
  });

  testOnce('a box is created with its packages, or not at all', async () => {
    const made = await gateway.createBox({ packages: ['pyserial'], network: 'none' });
    expect((await gateway.run(made.id, 'import serial; 1')).text).toBe('1');
    const once = await gateway.post<Run>('/v1/run', { packages: ['pyserial'], code: 'import serial; serial.__name__' });
    expect(once.body).toMatchObject({ status: 'ok', text: "'serial'" });
    const installing = await gateway.post<Run>('/v1/run', {
      autoInstall: true,
      code: 'import cowsay\ncowsay.__name__',
    });
    expect(installing.body).toMatchObject({ status: 'ok', text: "'cowsay'" });
    const before = (await gateway.get<Page<Box>>('/v1/boxes')).body.items.length;
    const refused = await gateway.post<Problem>('/v1/boxes', { packages: ['no-such-package-anywhere'] });
    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_request']);
    expect(refused.body.errors?.[0]).toEqual({
      pointer: '/packages',
      detail: expect.stringContaining('No matching distribution'),
    });
    expect((await gateway.get<Page<Box>>('/v1/boxes')).body.items.length).toBe(before);
  });

  testOnce('a time limit during autoInstall ends the execution and keeps the variables', async () => {
    const fresh = await gateway.createBox();
    await gateway.run(fresh.id, 'kept = 5');
    // Holds the lock of the installers until the command is ended.
    const holder = { command: 'exec 9>/tmp/.codebox/install.lock; flock 9; sleep 100', detach: true };
    await gateway.post(`/v1/boxes/${fresh.id}/commands`, holder);
    await eventually(async () => {
      const probe = { command: 'flock -n /tmp/.codebox/install.lock true; echo $?' };
      return (await gateway.post<Command>(`/v1/boxes/${fresh.id}/commands`, probe)).body.stdout === '1\n';
    });
    const late = await gateway.run(fresh.id, 'import cowsay', { autoInstall: true, timeoutSeconds: 2 });
    expect(late).toMatchObject({ status: 'timeout', stateLost: false });
    expect((await gateway.run(fresh.id, 'kept')).text).toBe('5');
  });
});
