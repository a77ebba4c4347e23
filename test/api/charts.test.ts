import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Chart, chartMime, chartSchema, type Execution } from '#contract';
import { type ChartInput, chartKinds, createDice } from './chart-inputs.ts';
import { mainDriver, type RunningGateway, startGateway, streamOf, usualBoxes } from './harness.ts';

/** The MIME bundles of everything that was displayed, in order. */
const bundlesOf = ({ outputs }: Execution) =>
  (outputs ?? []).flatMap((event) => (event.type === 'display' || event.type === 'result' ? [event.mime] : []));

/** Parses a chart by the contract, and expects no field beyond it. */
const toChart = (mime: Record<string, unknown> | undefined): Chart => {
  expect(String(mime?.['image/png']).slice(0, 8)).toBe('iVBORw0K');
  const chart = chartSchema.parse(mime?.[chartMime]);
  expect(chart).toEqual(mime?.[chartMime]);
  return chart;
};

/** How many of each kind. */
const batch = 20;

// Chart data depends on the libraries of the image only; other tests check on each driver that figures are returned.
describe.each(mainDriver)('charts on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  const run = (code: string) => gateway.run(box.id, code, { timeoutSeconds: 120 });
  const charts = async (code: string) => bundlesOf(await run(code)).map(toChart);

  beforeAll(async () => {
    gateway = await startGateway(driver, usualBoxes);
    const text = await readFile(new URL('draw_charts.py', import.meta.url), 'utf8');
    box = await gateway.createBox({ files: [{ path: 'draw_charts.py', text }] });
    expect(await run('import draw_charts')).toMatchObject({ status: 'ok' });
  });
  afterAll(() => gateway?.dispose());

  test.each(Object.entries(chartKinds))(`${batch} charts of kind %s return the plotted data`, async (kind, make) => {
    const dice = createDice(kind.length * 1000 + kind.charCodeAt(0));
    const inputs: ChartInput[] = dice.many(batch, () => make(dice, `${kind} ${dice.int(0, 999)}`));
    const path = `/v1/boxes/${box.id}/files/${kind}.json`;
    await gateway.call(path, { method: 'PUT', body: JSON.stringify(inputs.map(({ input }) => input)) });
    const found = await charts(`draw_charts.draw_file("${kind}.json")`);
    expect(found).toHaveLength(batch);
    for (const [at, { input, axes }] of inputs.entries()) {
      expect(found[at]).toMatchObject({ version: 1, title: input.title, axes });
    }
  });

  test.each([
    ['as the last expression', 'fig'],
    ['by plt.show()', 'plt.show()'],
    ['by display()', 'display(fig); plt.close(fig)'],
    ['at the end of the cell', '_ = 0'],
    ['made without pyplot', 'from matplotlib.figure import Figure\nfig = Figure(); fig.subplots().plot([1, 2]); fig'],
  ])('a figure returns its data %s', async (_, shown) => {
    const found = await charts(
      `import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.plot([1, 2])\n${shown}`,
    );
    expect(found.length).toBeGreaterThan(0);
    for (const chart of found) expect(chart.axes[0]?.series).toMatchObject([{ type: 'line', x: [0, 1], y: [1, 2] }]);
  });

  test('pandas and seaborn give the same data', async () => {
    const found = await charts(
      [
        'import matplotlib.pyplot as plt, pandas as pd, seaborn as sns',
        'df = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=["x", "y"])',
        'df.plot.barh(); plt.show()',
        'df.plot.bar(stacked=True); plt.show()',
        'pd.Series([1, 2], index=pd.date_range("2024-02-28", periods=2, freq="D")).plot(); plt.show()',
        'long = pd.DataFrame({"d": ["m", "t", "m", "t"], "h": ["u", "u", "v", "v"], "v": [1.0, 2, 3, 4]})',
        'sns.barplot(long, x="d", y="v", hue="h"); plt.show()',
        'sns.boxplot(long, x="d", y="v"); plt.show()',
        'sns.histplot([0.5, 1.5, 1.6, 3.5], bins=[0, 1.25, 2.5, 5]); plt.show()',
      ].join('\n'),
    );
    const [lying, stacked, dates, grouped, boxes, bins] = found.map(({ axes }) => axes[0]);
    expect(lying).toMatchObject({ bars: 'grouped', y: { type: 'category' } });
    expect(lying?.series).toMatchObject([
      { type: 'bar', orientation: 'horizontal', label: 'a', position: ['x', 'y'], value: [1, 2] },
      { type: 'bar', orientation: 'horizontal', label: 'b', position: ['x', 'y'], value: [3, 4] },
    ]);
    expect(stacked).toMatchObject({ bars: 'stacked', series: [{ base: [0, 0] }, { base: [1, 2] }] });
    expect(dates?.series).toMatchObject([{ x: ['2024-02-28T00:00:00Z', '2024-02-29T00:00:00Z'], y: [1, 2] }]);
    expect(grouped).toMatchObject({ bars: 'grouped', x: { label: 'd' } });
    expect(grouped?.series).toMatchObject([
      { label: 'u', position: ['m', 't'], value: [1, 2], offset: [-0.2, -0.2] },
      { label: 'v', position: ['m', 't'], value: [3, 4], offset: [0.2, 0.2] },
    ]);
    expect(boxes?.series).toMatchObject([
      { type: 'box', position: 'm', median: 2 },
      { type: 'box', position: 't', median: 3 },
    ]);
    expect(bins?.series).toMatchObject([{ type: 'histogram', edges: [0, 1.25, 2.5, 5], value: [1, 2, 1] }]);
  });

  test('a non-finite number becomes null and an unknown artist is named; neither costs the PNG', async () => {
    const [chart] = await charts(
      [
        'import matplotlib.pyplot as plt, numpy as np',
        'from matplotlib.lines import Line2D',
        'class Broken(Line2D):',
        '    def get_xdata(self, orig=True): return self.oddly',
        'fig, ax = plt.subplots()',
        'ax.plot([1, np.nan, np.inf], [1, 2, 3]); ax.axhline(2); ax.fill_between([0, 1], [2, 3], 1)',
        'ax.imshow(np.eye(2)); ax.add_patch(plt.Circle((0, 0), 1)); ax.add_artist(Broken([0], [0]))',
        'plt.show()',
      ].join('\n'),
    );
    expect(chart?.axes[0]?.series).toMatchObject([
      { type: 'line', x: [1, null, null], y: [1, 2, 3] },
      { type: 'rule', orientation: 'horizontal', value: 2 },
      { type: 'area', position: [0, 1], from: [2, 3], to: [1, 1] },
      { type: 'image', rows: 2, columns: 2 },
      { type: 'unknown', artist: 'Circle', count: 1 },
      { type: 'unknown', artist: 'Broken', count: 1 },
    ]);
    const odd = await run(
      [
        'import matplotlib.pyplot as plt',
        'from matplotlib.figure import Figure',
        'class Odd(Figure):',
        '    def get_suptitle(self): raise RuntimeError("odd")',
        '_ = plt.figure(FigureClass=Odd).add_subplot()',
      ].join('\n'),
    );
    expect(bundlesOf(odd).map((mime) => Object.keys(mime).sort())).toEqual([['image/png', 'text/plain']]);
    expect(odd.status).toBe('ok');
  });

  test('a chart of a million points is truncated and reports the number of omitted points', async () => {
    const [chart] = await charts('import matplotlib.pyplot as plt\n_ = plt.plot(range(1_000_000))');
    expect(JSON.stringify(chart).length).toBeLessThan(2 * 1024 * 1024);
    const [line] = chart?.axes[0]?.series ?? [];
    const kept = line?.type === 'line' ? line.x : [];
    expect([kept[0], kept.at(-1)]).toEqual([0, 999_999]);
    expect(chart?.truncated).toEqual({ points: 1_000_000 - kept.length, series: 0 });
  });

  test.each([
    [
      'plotly',
      'import plotly.graph_objects as go\ngo.Figure(go.Bar(x=["a"], y=[7]))',
      /^application\/vnd\.plotly\.v1\+json$/,
    ],
    [
      'altair',
      'import altair as alt, pandas as pd\nalt.Chart(pd.DataFrame({"a": [7]})).mark_bar().encode(x="a:Q")',
      /^application\/vnd\.vegalite\.v\d[.+]json$/,
    ],
    [
      'vega',
      'display({"application/vnd.vegalite.v5+json": {"data": 7}, "text/plain": "v"}, raw=True)',
      /^application\/vnd\.vegalite\.v5\+json$/,
    ],
    [
      '_repr_mimebundle_',
      'class A:\n  def _repr_mimebundle_(self, **_): return {"application/x-own+json": {"a": 7}, "text/plain": "own"}\nA()',
      /^application\/x-own\+json$/,
    ],
  ])('what %s displays keeps its own MIME type', async (_, code, type) => {
    const [mime] = bundlesOf(await run(code));
    const name = Object.keys(mime ?? {}).find((candidate) => type.test(candidate));
    expect(JSON.stringify(mime?.[name ?? ''])).toContain('7');
  });

  test('libraries that validate JSON load without parsers that nobody uses, and make one for who does', async () => {
    const code = [
      'import altair, nbformat',
      'from rfc3987_syntax import syntax_helpers as iris',
      'made = lambda: iris.syntax_parser._made.cache_info().currsize',
      'print(made(), iris.is_valid_syntax("iri", "https://a.example/ä"), iris.is_valid_syntax("iri", "a b"), made())',
    ];
    expect(streamOf((await run(code.join('\n'))).outputs, 'stdout')).toBe('0 True False 1\n');
  });
});
