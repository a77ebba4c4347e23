import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, collect, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { type CellResult, installPython, type Lab, openLab, resultOf, runCell, textOf } from './jupyter-clients.ts';
import { fromCode, fromLab, handshake, startStock } from './jupyter-stock.ts';

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const widget = `import comm
model = comm.create_comm(target_name="jupyter.widget", data={"state": {"value": 1}, "buffer_paths": []}, metadata={"version": "2.1.0"})
model.on_msg(lambda message: (print("got", message["content"]["data"]), model.send({"method": "update", "state": {"value": 2}})))
display({"application/vnd.jupyter.widget-view+json": {"model_id": "m", "version_major": 2}, "text/plain": "Slider"}, raw=True)`;

/** The cells of a notebook, with what its client asks for besides. */
const cells: [code: string, options?: Parameters<typeof runCell>[2]][] = [
  ['print(1, end=""); 2'],
  ['from IPython.display import display, HTML, Image, clear_output\nh = display(HTML("<b>1</b>"), display_id="d")'],
  ['clear_output(wait=True)\nh.update(HTML("<b>2</b>"))'],
  ['display(1, display_id="e"); print("between"); display(2, display_id="e", update=True)'],
  ['import sys; print("out"); print("err", file=sys.stderr); print("out again")'],
  ['name = input("who? ")\nname'],
  ['import getpass; len(getpass.getpass("secret? "))'],
  ['def f(): yield 1\nlist(f())'],
  [`import base64\nImage(base64.b64decode("${png}"), width=30, height=40, metadata={"alt": "a dot"})`],
  [
    `display({"image/png": "${png}", "text/plain": "dot"}, raw=True, metadata={"image/png": {"width": 3}, "needs_background": "light"})`,
  ],
  ['x = 41', { user_expressions: { next: 'x + 1', image: 'HTML("<i>")', wrong: 'x.y' } }],
  ['len?'],
  ['%%bash\necho from a shell'],
  ['None.x'],
  [
    'def outer(n): return 1 / n if n == 0 else outer(n - 1)\ntry:\n    outer(2)\nexcept ZeroDivisionError as error:\n    raise KeyError("other") from error',
  ],
  ['x = = 1'],
  ['raise SystemExit("end")'],
  ['import warnings; warnings.simplefilter("always"); warnings.warn("careful")'],
  ['1 / 0', { user_expressions: { next: 'x + 1' } }],
  [
    'class Shown:\n    def _repr_mimebundle_(self, **_): return {"text/plain": "plain", "application/x-own": {"a": [1]}}, {"application/x-own": {"m": 1}}\nShown()',
  ],
  [widget],
  ['import time; time.sleep(1)'],
  ['model.close()'],
  ['5; "silent"', { silent: true }],
  ['"not in the history"', { store_history: false }],
  ['x'],
];

/**
 * The messages of a cell, with the text of each stream joined, because its parts are a matter of time, and with the places of the machine
 * replaced. Those of comms come on their own way.
 */
const shownOf = ({ outputs, reply }: CellResult) => {
  const joined: CellResult['outputs'] = [];
  for (const output of outputs.filter(({ type }) => !type.startsWith('comm_'))) {
    const other = joined.findLastIndex(({ type }) => type !== 'stream');
    const same = joined
      .slice(other + 1)
      .find(({ content }) => output.type === 'stream' && content.name === output.content.name);
    if (same) same.content = { ...same.content, text: `${same.content.text}${output.content.text}` };
    else joined.push({ ...output });
  }
  const { engine_info, ...rest } = reply;
  const text = JSON.stringify([joined.map(({ type, content, metadata }) => [type, content, metadata]), rest]);
  return JSON.parse(
    text
      .replaceAll(/\/tmp\/ipykernel_\d+\/\d+\.py/g, 'a file')
      .replaceAll(/[0-9a-f]{32}/g, 'an id')
      .replaceAll(/\/[^" ]*\/site-packages/g, 'site-packages'),
  );
};

/** Runs all cells, and talks with the kernel as notebooks do. */
const record = async (lab: Lab) => {
  const kernel = await lab.start();
  const heard: unknown[] = [];
  kernel.registerCommTarget('jupyter.widget', (widgetOfPage, { content, metadata }) => {
    heard.push(['open', content.data, metadata]);
    widgetOfPage.onMsg = (message) => {
      heard.push(['message', message.content.data]);
    };
    widgetOfPage.onClose = () => {
      heard.push(['close']);
    };
    widgetOfPage.send({ method: 'update', state: { value: 5 } });
  });
  const seen: unknown[] = [(await kernel.info).language_info];
  for (const [code, options] of cells)
    seen.push([code, shownOf(await runCell(kernel, code, { answer: 'ada', ...options }))]);
  await eventually(async () => heard.length === 3);
  seen.push(heard);
  const endless = runCell(kernel, 'print("at it")\nwhile True: pass');
  await eventually(async () => kernel.status === 'busy');
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await kernel.interrupt();
  seen.push(['interrupt', shownOf(await endless)]);
  const flood = await runCell(kernel, 'for i in range(20): print(str(i % 10) * 999_999)');
  const text = textOf(flood);
  seen.push(['20 MB', text.length, createHash('sha256').update(text).digest('hex'), flood.reply]);
  const { content } = await kernel.requestComplete({ code: 'sys.versi', cursor_pos: 9 });
  // Where the completed part begins depends on the completer.
  if (content.status === 'ok')
    seen.push(content.matches.map((match) => `${'sys.versi'.slice(0, content.cursor_start)}${match}`));
  const asked = [
    await kernel.requestInspect({ code: 'len', cursor_pos: 3, detail_level: 0 }),
    await kernel.requestIsComplete({ code: 'for x in y:' }),
    await kernel.requestCommInfo({}),
  ];
  seen.push(asked.map((reply) => reply.content));
  await kernel.shutdown();
  return seen;
};

describe.each(drivers)('a notebook on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let stock: Awaited<ReturnType<typeof startStock>>;
  const place = (name: string) => ({ url: `${gateway.url}/jupyter/${name}`, token: gateway.key });
  beforeAll(async () => {
    stock = await startStock(await installPython());
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'jupyter' });
  }, 600_000);
  afterAll(async () => {
    await stock?.dispose();
    await gateway?.dispose();
  });

  test('gets the same messages as from a stock Jupyter Server', async () => {
    const labs = [openLab(place('ada')), openLab(stock)] as const;
    try {
      const [seen, expected] = [await record(labs[0]), await record(labs[1])];
      for (const [index, each] of seen.entries()) expect.soft(each).toEqual(expected[index]);
    } finally {
      for (const lab of labs) lab.dispose();
    }
  }, 240_000);

  test.each([
    ['JupyterLab', fromLab],
    ['VS Code', fromCode],
  ])('gets the same responses to what %s asks as from a stock Jupyter Server', async (name, steps) => {
    const [seen, expected] = [await handshake(place(name), steps), await handshake(stock, steps)];
    for (const [index, each] of seen.entries()) expect(each).toEqual(expected[index]);
  });

  test('VS Code, which first asks whether a server is a JupyterHub, is told that it is none', async () => {
    for (const { url } of [place('ada'), stock]) {
      const { status } = await fetch(`${url}/hub/api`, { redirect: 'manual' });
      expect([401, 403, 404], url).toContain(status);
    }
  });
});

test.each(anyDriver)('a Jupyter Server in gateway mode runs its kernels in a box on the %s driver', async (driver) => {
  const gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'jupyter' });
  await using stack = new AsyncDisposableStack();
  stack.defer(gateway.dispose);
  const place = { url: `${gateway.url}/jupyter/ada`, token: gateway.key };
  const server = await startStock(await installPython(), { behind: place });
  stack.defer(server.dispose);
  const lab = openLab(server);
  stack.defer(lab.dispose);
  const specs = await lab.specs();
  expect([specs?.default, Object.keys(specs?.kernelspecs ?? {})]).toEqual([
    'python3',
    expect.arrayContaining(['bash', 'python3']),
  ]);
  const { kernel: started } = await lab.sessions.start('n.ipynb');
  const kernel = lab.kernels.connectTo({ model: started ?? { id: '', name: '' } });
  await runCell(kernel, 'x = 41');
  expect(resultOf(await runCell(kernel, 'input("? ") + str(x + 1)', { answer: '= ' }))).toBe("'= 42'");
  const [box] = await collect(gateway.client.boxes.list({ user: 'jupyter/ada' }));
  const ran = await collect(gateway.client.executions.list(box?.id ?? ''));
  expect(ran).toHaveLength(2);
  const endless = runCell(kernel, 'print("at it", flush=True)\nwhile True: pass');
  await eventually(async () => kernel.status === 'busy');
  await kernel.interrupt();
  expect((await endless).reply).toMatchObject({ status: 'error', ename: 'KeyboardInterrupt' });
  await kernel.restart();
  expect((await runCell(kernel, 'x')).reply).toMatchObject({ ename: 'NameError' });
  expect((await lab.sessions.list()).map(({ path }) => path)).toEqual(['n.ipynb']);
  await kernel.shutdown();
  expect(await collect(gateway.client.contexts.list(box?.id ?? ''))).toEqual([]);
});
