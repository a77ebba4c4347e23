import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type CommandEvent, commandEventSchema, type Problem } from '#contract';
import { drivers, type RunningGateway, startGateway } from './harness.ts';

interface Notebook {
  cells: { outputs: { output_type: string }[] }[];
}
type Cell = Extract<CommandEvent, { type: 'cell' }>;

const code = (id: string, source: string) => ({
  cell_type: 'code',
  id,
  source,
  metadata: {},
  outputs: [],
  execution_count: null,
});
const notebook = (...cells: object[]): string =>
  JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells });
const endedCells = (events: readonly CommandEvent[]): Cell[] =>
  events.filter((event): event is Cell => event.type === 'cell' && event.status !== 'running');

describe.each(drivers)('notebooks on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const put = async (path: string, text: string) =>
    expect((await gateway.call(`/v1/boxes/${box.id}/files/${path}`, { method: 'PUT', body: text })).ok).toBe(true);
  const read = async (path: string) => (await gateway.get<Notebook>(`/v1/boxes/${box.id}/files/${path}`)).body;
  const refusal = async (body: object) => {
    const { status, body: problem } = await gateway.post<Problem>(`/v1/boxes/${box.id}/notebooks`, body);
    return [status, problem.errors?.[0]?.pointer];
  };

  test('a notebook runs whole, cell by cell, and its file gets the outputs', async () => {
    const { notebooks, commands } = gateway.client;
    await put('a.ipynb', notebook(code('one', 'x = 2'), code('two', 'print(x * y)'), code('three', '1/0')));
    const stream = await notebooks.stream(box.id, { path: 'a.ipynb', output: 'b.ipynb', parameters: { y: 21 } });
    const events = (await Array.fromAsync(stream)).map((event) => commandEventSchema.parse(event));
    const cells = endedCells(events);
    // Before the cells of the file is the one with the parameters.
    expect(cells.map(({ index, cells: all, status }) => [index, all, status])).toEqual([
      [0, 4, 'ok'],
      [1, 4, 'ok'],
      [2, 4, 'ok'],
      [3, 4, 'error'],
    ]);
    expect(cells[2]).toMatchObject({ id: 'two', outputs: [{ output_type: 'stream', text: '42\n' }] });
    expect(events.at(-1)).toMatchObject({ status: 'error', exitCode: 1, files: { created: ['b.ipynb'] } });
    expect((await read('b.ipynb')).cells[3]?.outputs).toMatchObject([{ ename: 'ZeroDivisionError' }]);
    expect((await read('a.ipynb')).cells).toHaveLength(3);
    const resumed = commands.events(box.id, stream.id, { after: (cells[2]?.seq ?? 0) - 1 });
    expect((await Array.fromAsync(resumed))[0]).toMatchObject({ type: 'cell', id: 'two', status: 'ok' });
  });

  test('a notebook in the form in which strangers publish them runs whole', async () => {
    const cell = (...lines: string[]) => ({
      cell_type: 'code',
      source: lines.map((line, index) => (index === lines.length - 1 ? line : `${line}\n`)),
      metadata: { colab: { base_uri: 'https://localhost:8080/' }, collapsed: true },
      outputs: [{ output_type: 'stream', name: 'stdout', text: ['of another machine\n'] }],
      execution_count: 7,
    });
    // An old format, without ids of cells, for a kernel of a machine that nobody has.
    const theirs = {
      nbformat: 4,
      nbformat_minor: 0,
      metadata: { kernelspec: { name: 'conda-env-ml-py', display_name: 'Python [conda env:ml]', language: 'python' } },
      cells: [
        { cell_type: 'markdown', metadata: {}, source: ['# Sales\n', '![logo](https://example.com/logo.png)'] },
        cell('%matplotlib inline', '!pip --version', 'import pandas as pd, matplotlib.pyplot as plt'),
        cell('%%time', "df = pd.DataFrame({'day': ['Mon', 'Tue'], 'sold': [20, 22]})", 'display(df.head())'),
        cell("df.plot.bar(x='day')", 'plt.show()'),
        cell('df.sold.sum()'),
      ],
    };
    await put('theirs.ipynb', JSON.stringify(theirs));
    const result = await gateway.client.notebooks.run(box.id, { path: 'theirs.ipynb' });
    expect([result.status, result.stderr]).toEqual(['ok', '']);
    const outputs = (await read('theirs.ipynb')).cells.map((each) => JSON.stringify(each.outputs ?? []));
    expect(outputs.join()).not.toContain('another machine');
    const shown = ['[]', 'pip ', 'text/html', 'image/png', '42'];
    expect(outputs).toEqual(shown.map((text) => expect.stringContaining(text)));
  });

  test('a detached run is read and ended as a command', async () => {
    const { notebooks, commands } = gateway.client;
    await put('long.ipynb', notebook(code('one', 'import time; time.sleep(600)')));
    const { id } = await notebooks.start(box.id, { path: 'long.ipynb' });
    await commands.delete(box.id, id);
    expect(await commands.wait(box.id, id)).toMatchObject({ status: 'killed' });
  });

  test('what is no notebook is refused with the field that names it', async () => {
    await put('text.ipynb', 'no JSON');
    expect(await refusal({ path: 'text.ipynb' })).toEqual([400, '/path']);
    expect(await refusal({ path: 'none.ipynb' })).toEqual([404, undefined]);
    await put('a.ipynb', notebook(code('one', '1')));
    expect(await refusal({ path: 'a.ipynb', parameters: { 'a-b': 1 } })).toEqual([400, '/parameters']);
    const query = await gateway.get<Problem>(`/v1/boxes/${box.id}/notebook?context=x&language=python`);
    expect([query.status, query.body.errors?.[0]?.pointer]).toEqual([400, '/language']);
  });

  test('the executions of a box are a notebook, which runs again', async () => {
    await gateway.run(box.id, 'x = 41');
    await gateway.run(box.id, 'print(x + 1)');
    const response = await gateway.call(`/v1/boxes/${box.id}/notebook`);
    expect(response.headers.get('content-type')).toBe('application/x-ipynb+json');
    expect(response.headers.get('content-disposition')).toContain('notebook.ipynb');
    await put('again.ipynb', await response.text());
    const result = await gateway.client.notebooks.run(box.id, { path: 'again.ipynb' });
    expect(result).toMatchObject({ status: 'ok', stdout: '42\n' });
  });
});
