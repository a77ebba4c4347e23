import { type ChartAxes, type ChartSeries, chartSchema } from '#contract';

type Line = Extract<ChartSeries, { type: 'line' | 'scatter' }>;
type Bar = Extract<ChartSeries, { type: 'bar' }>;
type Pie = Extract<ChartSeries, { type: 'pie' }>;
type Whiskers = Extract<ChartSeries, { type: 'box' }>;

/**
 * Converts the data of a figure to E2B's format; undefined when there is none. Several axes become a `superchart`, and a figure in which
 * nothing is plotted has the type `unknown`.
 */
export const toE2bChart = (value: unknown): object | undefined => {
  const parsed = chartSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const charts = parsed.data.axes.filter(({ series }) => series.length > 0).map(toChart);
  const { title } = parsed.data;
  if (charts.length > 1) return { type: 'superchart', title, elements: charts };
  const [chart = { type: 'unknown', title: parsed.data.axes[0]?.title, elements: [] }] = charts;
  return { ...chart, title: chart.title ?? title };
};

const toChart = (axes: ChartAxes) => {
  const { title } = axes;
  const of = <T extends ChartSeries>(...types: ChartSeries['type'][]): T[] =>
    axes.series.filter((one): one is T => types.includes(one.type));
  const [pies, boxes, bars] = [of<Pie>('pie'), of<Whiskers>('box'), of<Bar>('bar')];
  const points = of<Line>('line', 'scatter');
  if (pies.length > 0) return { type: 'pie', title, elements: pies.flatMap(toSlices) };
  if (boxes.length > 0) return { type: 'box_and_whisker', title, ...labelsOf(axes), elements: boxes.map(toBox) };
  if (bars.length > 0) return { type: 'bar', title, ...labelsOf(axes), elements: bars.flatMap(toBars) };
  if (points.length === 0) return { type: 'unknown', title, elements: [] };
  const type = points.some((one) => one.type === 'line') ? 'line' : 'scatter';
  return { type, title, ...labelsOf(axes), ...ticksOf(axes), elements: points.map(toPoints) };
};

/** The unit of an axis is the part of its label in brackets. */
const unitOf = (label: string | null): string | null => /[([]([^)\]]*)[)\]]/.exec(label ?? '')?.[1] ?? null;

const labelsOf = ({ x, y }: ChartAxes) => ({
  x_label: x.label,
  y_label: y.label,
  x_unit: unitOf(x.label),
  y_unit: unitOf(y.label),
});

const scales = { number: undefined, category: 'categorical', date: 'datetime' };

const ticksOf = ({ x, y }: ChartAxes) => ({
  x_ticks: x.ticks?.map(({ value }) => value) ?? [],
  x_tick_labels: x.ticks?.map(({ label }) => label) ?? [],
  x_scale: scales[x.type] ?? x.scale,
  y_ticks: y.ticks?.map(({ value }) => value) ?? [],
  y_tick_labels: y.ticks?.map(({ label }) => label) ?? [],
  y_scale: scales[y.type] ?? y.scale,
});

const toPoints = ({ label, x, y }: Line) => ({ label: label ?? '', points: x.map((value, at) => [value, y[at]]) });

const toBars = ({ label, position, value }: Bar) =>
  position.map((place, at) => ({ label: String(place), group: label ?? '', value: value[at] }));

const toSlices = ({ labels, fractions, radius }: Pie) =>
  fractions.map((share, at) => ({ label: labels[at] ?? '', angle: Math.round((share ?? 0) * 360e6) / 1e6, radius }));

const toBox = ({ label, position, low, q1, median, q3, high, outliers }: Whiskers) => ({
  label: label ?? String(position ?? ''),
  min: low,
  first_quartile: q1,
  median,
  third_quartile: q3,
  max: high,
  outliers,
});
