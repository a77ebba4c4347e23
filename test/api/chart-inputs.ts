import type { ChartSeries } from '#contract';

/** A seeded random generator, deterministic on every platform. */
export interface Dice {
  real: (low: number, high: number) => number;
  int: (low: number, high: number) => number;
  many: <T>(count: number, one: () => T) => T[];
  pick: <T>(from: readonly [T, ...T[]]) => T;
}

/** The input of the drawing program, and the data expected back: for each axes, the plotted parts of each series. */
export interface ChartInput {
  input: { kind: string; title: string; parts?: unknown[] } & Record<string, unknown>;
  axes: { series: (Partial<ChartSeries> & { type: ChartSeries['type'] })[]; [field: string]: unknown }[];
}

export const createDice = (seed: number): Dice => {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const int = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    real: (low, high) => low + next() * (high - low),
    int,
    many: (count, one) => Array.from({ length: count }, one),
    pick: (from) => from[int(0, from.length - 1)] ?? from[0],
  };
};

const orientations = ['vertical', 'horizontal'] as const;
const words = ['Äpfel', 'pears', '東京', 'a "b"', 'x<y', 'nuts', 'figs', 'ω'];

type Make = (dice: Dice, title: string) => ChartInput;

const line: Make = (dice, title) => {
  const sets = dice.many(dice.int(1, 3), () => {
    const length = dice.int(2, 40);
    return {
      label: dice.pick(['one', 'two', 'three']),
      color: `#${dice.int(0, 0xffffff).toString(16).padStart(6, '0')}`,
      x: dice.many(length, () => dice.real(-1e6, 1e6)),
      y: dice.many(length, () => dice.real(-1, 1)),
    };
  });
  return { input: { kind: 'line', title, sets }, axes: [{ series: sets.map((set) => ({ type: 'line', ...set })) }] };
};

const scatter: Make = (dice, title) => {
  const length = dice.int(2, 60);
  const data = {
    x: dice.many(length, () => dice.real(-1e-3, 1e9)),
    y: dice.many(length, () => dice.real(-5, 5)),
    sizes: dice.many(length, () => dice.real(1, 50)),
    color: '#12ab9f',
  };
  return { input: { kind: 'scatter', title, ...data }, axes: [{ series: [{ type: 'scatter', ...data }] }] };
};

const bar: Make = (dice, title) => {
  const categories = words.slice(0, dice.int(2, words.length));
  const orientation = dice.pick(orientations);
  const arrangement = dice.pick(['single', 'grouped', 'stacked'] as const);
  const sets = dice.many(arrangement === 'single' ? 1 : dice.int(2, 4), () => ({
    label: `set ${dice.int(0, 9)}`,
    values: categories.map(() => dice.real(0.5, 100)),
  }));
  const floor = categories.map(() => 0);
  const stacked = arrangement === 'stacked';
  const series = sets.map(({ label, values }) => {
    const base = [...floor];
    if (stacked) for (const [at, value] of values.entries()) floor[at] = (floor[at] ?? 0) + value;
    return { type: 'bar' as const, label, orientation, position: categories, value: values, base };
  });
  const place = orientation === 'vertical' ? 'x' : 'y';
  const input = { kind: 'bar', title, categories, orientation, arrangement, sets };
  return { input, axes: [{ bars: arrangement, [place]: { type: 'category' }, series }] };
};

const pie: Make = (dice, title) => {
  const labels = words.slice(0, dice.int(2, words.length));
  const values = labels.map(() => dice.real(0.1, 1000));
  return { input: { kind: 'pie', title, labels, values }, axes: [{ series: [{ type: 'pie', labels, values }] }] };
};

/** Quartiles of 4n + 1 integers are elements of the sample, so that they are exact. */
const box: Make = (dice, title) => {
  const labels = words.slice(0, dice.int(1, 4));
  const sets = labels.map(() => dice.many(4 * dice.int(2, 6) + 1, () => dice.int(-50, 50) * dice.pick([1, 1, 1, 9])));
  const orientation = dice.pick(orientations);
  const series = sets.map((set, at) => {
    const sorted = [...set].sort((one, other) => one - other);
    const quartile = (share: number) => sorted[((sorted.length - 1) * share) / 4] ?? Number.NaN;
    const [q1, median, q3] = [quartile(1), quartile(2), quartile(3)];
    const reach = 1.5 * (q3 - q1);
    const inside = sorted.filter((one) => one >= q1 - reach && one <= q3 + reach);
    const low = Math.min(q1, inside[0] ?? q1);
    const high = Math.max(q3, inside.at(-1) ?? q3);
    const outliers = [...set.filter((one) => one < low), ...set.filter((one) => one > high)];
    return { type: 'box' as const, orientation, position: labels[at] ?? '', low, q1, median, q3, high, outliers };
  });
  return { input: { kind: 'box', title, labels, sets, orientation }, axes: [{ series }] };
};

const histogram: Make = (dice, title) => {
  const edges = [0, 1, 2.5, 4, 8].slice(0, dice.int(3, 5));
  const top = edges.at(-1) ?? 0;
  const values = dice.many(dice.int(5, 200), () => dice.real(0, top));
  const orientation = dice.pick(orientations);
  const value = edges.slice(1).map((end, at) => values.filter((one) => one >= (edges[at] ?? 0) && one < end).length);
  const style = dice.pick(['bar', 'bar', 'step', 'stepfilled']);
  return {
    input: { kind: 'histogram', title, values, edges, orientation, style },
    axes: [{ series: [{ type: 'histogram', orientation, edges, value }] }],
  };
};

const errorbar: Make = (dice, title) => {
  const length = dice.int(2, 20);
  const [x, y, minus, plus] = dice.many(4, () => dice.many(length, () => dice.real(0, 10)));
  const line = dice.pick([true, false]);
  const yLow = y?.map((one, at) => one - (minus?.[at] ?? 0)) ?? [];
  const yHigh = y?.map((one, at) => one + (plus?.[at] ?? 0)) ?? [];
  return {
    input: { kind: 'errorbar', title, x, y, minus, plus, format: line ? '-o' : 's' },
    axes: [{ series: [{ type: 'errorbar', label: 'm', line, x: x ?? [], y: y ?? [], yLow, yHigh }] }],
  };
};

/** Dates along x, a logarithmic y. */
const scales: Make = (dice, title) => {
  const length = dice.int(2, 30);
  const day = () => new Date(dice.int(-2_000_000_000, 4_000_000_000) * 1000).toISOString().replace('.000Z', 'Z');
  const times = dice.many(length, day);
  const y = dice.many(length, () => 10 ** dice.real(-5, 5));
  return {
    input: { kind: 'scales', title, times, y },
    axes: [{ x: { type: 'date', scale: 'linear' }, y: { scale: 'log' }, series: [{ type: 'line', x: times, y }] }],
  };
};

const twin: Make = (dice, title) => {
  const x = dice.many(dice.int(2, 9), () => 0).map((_, at) => at);
  const left = x.map(() => dice.real(0, 1));
  const right = x.map(() => dice.real(1, 1000));
  return {
    input: { kind: 'twin', title, x, left, right },
    axes: [
      { y: { label: 'left' }, series: [{ type: 'line', x, y: left, color: '#d62728' }] },
      { y: { label: 'right' }, twinOf: 0, shares: 'x', series: [{ type: 'bar', position: x, value: right }] },
    ],
  };
};

const subplots: Make = (dice, title) => {
  const parts = dice
    .many(4, () => dice.pick([line, scatter, bar, pie, box, histogram, errorbar]))
    .map((make, at) => make(dice, `${title} ${at}`));
  return {
    input: { kind: 'subplots', title, parts: parts.map(({ input }) => input) },
    axes: parts.flatMap(({ axes, input }) => axes.map((one) => ({ ...one, title: input.title }))),
  };
};

/** The ten kinds of charts, each with its generator. */
export const chartKinds = { line, scatter, bar, pie, box, histogram, errorbar, scales, twin, subplots };
