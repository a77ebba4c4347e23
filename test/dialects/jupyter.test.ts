import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, collect, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { adminKey, makeTenant } from '../api/operator.ts';
import { connect } from '../api/websocket.ts';
import { readPage } from '../pages.ts';
import { pasteDialectPage, runPython } from './clients.ts';
import {
  briefOf,
  executeRequest,
  installPython,
  isReply,
  isStream,
  type Lab,
  openLab,
  openWebUi,
  parentOf,
  request,
  resultOf,
  runCell,
  textOf,
  untilGo,
  versions,
} from './jupyter-clients.ts';

const plot = 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()';
let python = '';
beforeAll(async () => {
  python = await installPython();
}, 600_000);

describe.each(drivers)('the Jupyter dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let lab: Lab;
  const place = (name: string, key = gateway.key) => ({ url: `${gateway.url}/jupyter/${name}`, token: key });
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'jupyter', CODEBOX_ADMIN_KEY: adminKey });
    lab = openLab(place('ada@example.com'));
  });
  afterAll(async () => {
    lab?.dispose();
    await gateway?.dispose();
  });

  test('a notebook keeps state, streams, plots, reports errors, completes, and can be interrupted and restarted', async () => {
    const kernel = await lab.start();
    expect((await kernel.info).language_info.name).toBe('python');
    await runCell(kernel, 'x = 41');
    const result = await runCell(kernel, 'import sys; print("hi"); print("e", file=sys.stderr); x + 1');
    expect([textOf(result), resultOf(result), result.reply]).toEqual([
      expect.stringMatching(/hi\n/),
      '42',
      expect.objectContaining({ status: 'ok', execution_count: 2 }),
    ]);
    expect(result.outputs.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['status', 'execute_input', 'stream', 'execute_result']),
    );
    const { outputs } = await runCell(kernel, plot);
    const shown = outputs.find(({ type }) => type === 'display_data');
    expect(shown?.content.data).toMatchObject({ 'image/png': expect.stringMatching(/^iVBOR/) });
    const failed = await runCell(kernel, '1 / 0');
    expect(failed.reply).toMatchObject({ status: 'error', ename: 'ZeroDivisionError', evalue: 'division by zero' });
    const { content } = await kernel.requestComplete({ code: 'sys.versi', cursor_pos: 9 });
    expect(content).toMatchObject({ status: 'ok', matches: expect.arrayContaining(['.version']) });
    expect(textOf(await runCell(kernel, 'for _ in range(20): print("x" * 999_999)'))).toHaveLength(20_000_000);
    const endless = runCell(kernel, 'print("at it")\nwhile True: pass');
    await eventually(async () => kernel.status === 'busy');
    await kernel.interrupt();
    expect((await endless).reply).toMatchObject({ status: 'error', ename: 'KeyboardInterrupt' });
    expect(resultOf(await runCell(kernel, 'x'))).toBe('41');
    await kernel.restart();
    expect((await runCell(kernel, 'x')).reply).toMatchObject({ status: 'error', ename: 'NameError' });
    await kernel.shutdown();
  });

  if (!anyDriver.includes(driver)) return;

  test('after an error the cells that wait are aborted, and silent code shows and counts nothing', async () => {
    const kernel = await lab.start();
    const [first, second] = await Promise.all([
      runCell(kernel, '1 / 0', { stop_on_error: true }),
      runCell(kernel, 'ran = True'),
    ]);
    expect([first.reply.status, second.reply.status]).toEqual(['error', 'aborted']);
    const quiet = await runCell(kernel, 'print("ran" in globals()); 5', { silent: true });
    expect([textOf(quiet), resultOf(quiet)]).toEqual(['False\n', undefined]);
    expect((await runCell(kernel, '1')).reply.execution_count).toBe(2);
    const asked = await runCell(kernel, 'input()');
    expect(asked.reply).toMatchObject({ ename: 'StdinNotImplementedError' });
    await kernel.shutdown();
  });

  test('messages of widgets pass in both directions, with their buffers', async () => {
    const kernel = await lab.start();
    kernel.registerCommTarget('from-box', (comm, message) => {
      comm.send({ got: message.content.data, bytes: message.buffers?.map((buffer) => buffer.byteLength) } as never);
    });
    await runCell(
      kernel,
      `import comm
got = []
c = comm.create_comm(target_name="from-box", data={"n": 1}, buffers=[b"abc"])
c.on_msg(lambda message: got.append(message["content"]["data"]))`,
    );
    const said = await eventually(async () => {
      const text = resultOf(await runCell(kernel, 'got'));
      return text !== '[]' && text;
    });
    expect(said).toBe("[{'got': {'n': 1}, 'bytes': [3]}]");
    await kernel.shutdown();
  });

  test('a message that waits for a busy kernel does not hold up an interrupt', async () => {
    const kernel = await lab.start();
    const path = `/jupyter/ada@example.com/api/kernels/${kernel.id}/channels?session_id=mine&token=${gateway.key}`;
    const socket = await connect(gateway, path);
    socket.sendJson(executeRequest('one', 'print("at it", flush=True)\nwhile True: pass'));
    await socket.json(isStream);
    socket.sendJson(request('kernel_info_request'));
    socket.sendJson({ ...request('interrupt_request'), channel: 'control' });
    // The channels of a busy kernel open after 20 seconds.
    await socket.json(({ msg_type }) => msg_type === 'interrupt_reply', 10_000);
    await socket.json(({ msg_type }) => msg_type === 'kernel_info_reply');
    // JupyterLab drops messages that wait when one comes that names another session.
    expect(new Set(socket.messages.map((message) => 'json' in message && sessionOf(message.json))).size).toBe(1);
    socket.ws.close();
    await kernel.shutdown();
  });

  test('files, notebooks and sessions are listed, written, read, renamed and removed', async () => {
    const { contents, sessions } = lab;
    await contents.save('a b.txt', { type: 'file', format: 'text', content: 'hällo' });
    expect((await contents.get('a b.txt')).content).toBe('hällo');
    const notebook = await contents.newUntitled({ type: 'notebook' });
    expect(notebook.path).toBe('Untitled.ipynb');
    await contents.createCheckpoint(notebook.path);
    expect(await contents.listCheckpoints(notebook.path)).toHaveLength(1);
    await contents.rename(notebook.path, 'report.ipynb');
    const names = (await contents.get('')).content.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(['a b.txt', 'report.ipynb']));
    const download = await fetch(`${await contents.getDownloadUrl('a b.txt')}?token=${gateway.key}`);
    expect(await download.text()).toBe('hällo');
    const session = await sessions.start('report.ipynb');
    expect(await sessions.list()).toMatchObject([{ id: session.id, path: 'report.ipynb' }]);
    expect((await sessions.start('report.ipynb')).kernel?.id).toBe(session.kernel?.id);
    await sessions.end(session.id);
    await contents.delete('report.ipynb');
    await expect(contents.get('report.ipynb')).rejects.toThrow(/report.ipynb/);
  });

  test('the kernel of Python has the name that notebooks have for it', async () => {
    const { default: usual, kernelspecs } = await lab.specs();
    expect([usual, kernelspecs.python3?.language, kernelspecs.python]).toEqual(['python3', 'python', undefined]);
    const session = await lab.sessions.start('named.ipynb');
    await lab.kernels.refreshRunning();
    const running = [...lab.kernels.running()].map(({ name }) => name);
    const older = await lab.start('python');
    const other = await lab.sessions.change(session.id, { kernel: { name: 'javascript' } });
    const listed = await lab.sessions.list();
    expect([session.kernel?.name, running, older.name, other.kernel?.name, listed[0]?.kernel?.name]).toEqual([
      'python3',
      expect.arrayContaining(['python3']),
      'python3',
      'javascript',
      'javascript',
    ]);
    expect(running).not.toContain('python');
    await lab.sessions.end(session.id);
    await older.shutdown();
  });

  test('terminals are started, used and ended', async () => {
    const terminal = await lab.terminals.startNew();
    let text = '';
    terminal.messageReceived.connect((_, { type, content }) => {
      if (type === 'stdout') text += content?.[0];
    });
    terminal.send({ type: 'set_size', content: [33, 111] });
    terminal.send({ type: 'stdin', content: ['stty size; echo h\u00e4\r'] });
    await eventually(async () => /33 111\s+hä/.test(text));
    await lab.terminals.refreshRunning();
    expect([...lab.terminals.running()].map(({ name }) => name)).toEqual([terminal.name]);
    await terminal.shutdown();
    await lab.terminals.refreshRunning();
    expect([...lab.terminals.running()]).toEqual([]);
  });

  test('a Python client runs code, and Open WebUI gets a fresh box for each run, as the page of the dialect sets both', async () => {
    const { url, token } = place('ada@example.com');
    const replaced = { 'http://codebox:8080': gateway.url, 'cbx_…': token };
    const behind = 'echo "$CODE_EXECUTION_JUPYTER_URL $CODE_EXECUTION_JUPYTER_AUTH_TOKEN"';
    const [openWebUiUrl = '', openWebUiToken = ''] = (
      await pasteDialectPage('jupyter', gateway, { python, replaced, behind })
    ).split(' ');
    const seen = await runPython<unknown>(
      python,
      `
import os
from jupyter_kernel_client import JupyterKernelClient
with JupyterKernelClient(server_url=os.environ["BASE"], token=os.environ["TOKEN"]) as kernel:
    replies = [kernel.execute(code) for code in ("print('hi'); 6 * 7", "1 / 0")]
show([[reply["status"], [output["output_type"] for output in reply["outputs"]]] for reply in replies])
`,
      { BASE: url, TOKEN: token },
    );
    expect(seen).toEqual([
      ['ok', ['stream', 'execute_result']],
      ['error', ['error']],
    ]);
    const runs = await runPython<{ kernel: string; stdout: string }[]>(
      python,
      `${openWebUi}\nasync def main(): return [await run("n = 1; " + ${JSON.stringify(plot)}), await run("print('n' in globals()); 1 / 0")]\nshow(asyncio.run(main()))`,
      { BASE: openWebUiUrl, TOKEN: openWebUiToken },
    );
    expect(runs).toMatchObject([
      { stdout: '', stderr: '', result: [expect.arrayContaining(['image/png'])] },
      { stdout: 'False\n', stderr: expect.stringContaining('ZeroDivisionError') },
    ]);
    const states = await Promise.all(runs.map(({ kernel }) => gateway.get<{ state: string }>(`/v1/boxes/${kernel}`)));
    expect(new Set(states.map(({ body }) => body.state))).toEqual(new Set(['deleted']));
  });

  test('a client that reconnects gets the messages that it has missed, once', async () => {
    const kernel = await lab.start();
    const model = `/jupyter/ada@example.com/api/kernels/${kernel.id}`;
    const path = `${model}/channels?session_id=mine&token=${gateway.key}`;
    const first = await connect(gateway, path);
    first.sendJson(executeRequest('one', `print("a\\n", end="", flush=True)\n${untilGo}print("b")`));
    await first.json(isStream);
    first.ws.close();
    await first.closed;
    await lab.contents.save('go', { type: 'file', format: 'text', content: '' });
    await eventually(async () => (await gateway.get<Model>(model)).body.execution_state === 'idle');
    const second = await connect(gateway, path);
    await second.json(isReply);
    expect(briefOf(second)).toEqual(['b\n', 'execute_reply']);
    second.ws.close();
    await second.closed;
    const third = await connect(gateway, path);
    third.sendJson(executeRequest('two', '6 * 7'));
    await third.json(isReply);
    expect(new Set(third.messages.map((message) => 'json' in message && parentOf(message.json)))).toEqual(
      new Set(['two']),
    );
    third.ws.close();
    await lab.contents.delete('go');
    await kernel.shutdown();
  });

  test('bad input, missing rights and quotas get errors in the format of Jupyter', async () => {
    const base = '/jupyter/ada@example.com/api';
    const call = async (method: string, path: string, body?: string, headers: Record<string, string> = {}) => {
      const response = await gateway.call(path, { method, headers, ...(body !== undefined && { body }) });
      const text = await response.text();
      return [response.status, text === '' ? undefined : JSON.parse(text)];
    };
    const shape = { message: expect.any(String) };
    const cases: [unknown, number][] = [
      [await call('POST', `${base}/kernels`, '{'), 400],
      [await call('POST', `${base}/kernels`, '{"name": "cobol"}'), 400],
      [await call('GET', `${base}/kernels/none`), 404],
      [await call('GET', `${base}/kernels/none/channels`), 426],
      [await call('GET', `${base}/contents/none`), 404],
      [await call('PUT', `${base}/contents/x.txt`, '{'), 400],
      [await call('GET', `${base}/sessions/none`), 404],
      [await call('GET', '/jupyter/new/api/contents'), 404],
      [await call('GET', '/jupyter/box-aaaaaaaaaaaaaaaaaaaaaaaaaa/api/kernels'), 404],
      [await call('GET', `/jupyter/${'n'.repeat(300)}/api/kernels`), 400],
      [await call('GET', `${base}/nothing`), 404],
      [await call('DELETE', `${base}/kernels`), 405],
      [await call('GET', `${base}/kernels`, undefined, { authorization: 'Basic YTpi' }), 401],
    ];
    for (const [index, [actual, status]] of cases.entries())
      expect([index, actual]).toEqual([index, [status, expect.objectContaining(shape)]]);
    for (const authorization of [`token ${gateway.key}`, `Bearer ${gateway.key}`])
      expect((await call('GET', `${base}/me`, undefined, { authorization }))[0]).toBe(200);
    const kernel = await lab.start();
    const { key, client, admin, tenant } = await makeTenant(gateway, { concurrentExecutions: 0 });
    const theirs = { authorization: `token ${key}` };
    const [box] = (await gateway.get<{ items: { id: string }[] }>('/v1/boxes')).body.items;
    expect((await call('GET', `/jupyter/${box?.id}/api/kernels`, undefined, theirs))[0]).toBe(404);
    expect(await call('GET', `${base}/kernels`, undefined, theirs)).toEqual([200, []]);
    expect((await call('GET', `${base}/kernels/${kernel.id}`, undefined, theirs))[0]).toBe(404);
    const another = openLab(place('ada@example.com', key));
    const { reply } = await runCell(await another.start(), '1');
    expect(reply).toMatchObject({ status: 'error', ename: 'quota_exceeded' });
    another.dispose();
    for await (const { id, user } of client.boxes.list()) {
      expect(user).toBe('jupyter/ada@example.com');
      await client.boxes.delete(id);
    }
    await admin.tenants.delete(tenant.id);
    await kernel.shutdown();
  });

  test('code counts as executions with their causes, and a dead kernel is replaced', async () => {
    const kernel = await lab.start();
    await kernel.info;
    const { reply } = await runCell(kernel, 'import os; os.kill(os.getpid(), 9)');
    expect(reply).toMatchObject({ status: 'error', ename: 'DeadKernelError' });
    await eventually(async () => kernel.connectionStatus === 'connected' && kernel.status === 'idle');
    expect(resultOf(await runCell(kernel, '1 + 1'))).toBe('2');
    const { items } = (
      await gateway.get<{ items: { id: string; user?: string }[] }>('/v1/boxes?user=jupyter/ada@example.com')
    ).body;
    const path = `/v1/boxes/${items[0]?.id}/executions?limit=2`;
    const statuses = await eventually(async () => {
      const { body } = await gateway.get<{ items: { status: string }[] }>(path);
      return body.items[0]?.status !== 'running' && body.items;
    });
    expect(statuses).toMatchObject([
      { status: 'ok', context: kernel.id },
      { status: 'killed', stateLost: true },
    ]);
    await kernel.shutdown();
  });

  test('below `new` only its own kernels are found, and one that does not start leaves no box', async () => {
    const { admin, tenant, client } = await makeTenant(gateway);
    const { key } = await admin.keys.create({ tenant: tenant.id, name: 'runs', scopes: ['run'] });
    const headers = { authorization: `token ${key}`, 'content-type': 'application/json' };
    const call = (method: string, path: string, body?: unknown) =>
      fetch(`${gateway.url}${path}`, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    const kernels = '/jupyter/new/api/kernels';
    const box = await client.boxes.create({});
    await client.contexts.create(box.id, {});
    expect((await call('DELETE', `${kernels}/${box.id}`)).status).toBe(404);
    expect((await client.boxes.read(box.id)).state).toBe('ready');
    expect((await call('POST', kernels, { name: 'cobol' })).status).toBe(400);
    const living = async () => (await collect(client.boxes.list())).map(({ id }) => id);
    expect(await living()).toEqual([box.id]);
    const { id } = (await (await call('POST', kernels, {})).json()) as { id: string };
    expect(await living()).toContain(id);
    expect((await call('DELETE', `${kernels}/${id}`)).status).toBe(204);
    await client.boxes.delete(box.id);
    await admin.tenants.delete(tenant.id);
  });
});

interface Model {
  id: string;
  execution_state: string;
}

const sessionOf = ({ header }: Record<string, unknown>) => (header as { session?: string }).session;
test('the page of the dialect lists the tested versions', async () => {
  const page = await readPage('docs/dialects/jupyter.md');
  for (const version of Object.values(versions)) expect(page).toContain(version);
});
