import { mkdir, writeFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { round, type Summary, summarise } from './summary.ts';

export interface Measure {
  name: string;
  unit: 'ms' | 'MB/s' | 'MiB' | 'per second' | 'per GiB' | 'of them';
  values: Summary;
}

/** One measure as a multiple of another, percentile by percentile. */
export interface Ratio {
  name: string;
  of: string;
  to: string;
  p50: number;
  p95: number;
  p99: number;
}

/** A target and whether this run met it; a missed one is reported and does not fail the run. */
export interface Bar {
  name: string;
  value: number;
  limit: number;
  unit: string;
  pass: boolean;
}

export interface Row {
  id: string;
  title: string;
  measures: Measure[];
  ratios: Ratio[];
  bars: Bar[];
  notes: string[];
}

/** A row that could not be measured. */
export interface Failure {
  id: string;
  reason: string;
}

export interface Report {
  startedAt: string;
  durationSeconds: number;
  machine: Record<string, string | number>;
  rows: Row[];
  failed: Failure[];
}

const moreIsBetter = new Set<Measure['unit']>(['MB/s', 'per second', 'per GiB', 'of them']);

export const measure = (name: string, unit: Measure['unit'], samples: readonly number[]): Measure => ({
  name,
  unit,
  values: summarise(samples, moreIsBetter.has(unit) ? 'low' : 'high'),
});

/** `of` divided by `to`, the names of two measures of one row. Throws for an unknown measure. */
export const ratio = (measures: readonly Measure[], of: string, to: string): Ratio => {
  const find = (name: string) => {
    const found = measures.find((candidate) => candidate.name === name);
    if (found === undefined) throw new Error(`there is no measure ${name}`);
    return found.values;
  };
  const [above, below] = [find(of), find(to)];
  const divide = (key: 'p50' | 'p95' | 'p99') => round(above[key] / below[key]);
  return { name: `${of} / ${to}`, of, to, p50: divide('p50'), p95: divide('p95'), p99: divide('p99') };
};

/** A target that is met if the value is at most `limit`. */
export const atMost = (name: string, value: number, limit: number, unit: string): Bar => ({
  name,
  value: round(value),
  limit,
  unit,
  pass: value <= limit,
});

/** The properties of this machine that affect the numbers, without its name. */
export const describeMachine = (): Report['machine'] => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cpus: cpus().length,
  memoryMiB: Math.round(totalmem() / 1024 ** 2),
  kernel: release(),
  node: process.version,
  // A load well above the number of CPUs means that other programs slowed down the run.
  loadOneMinute: round(loadavg()[0] ?? 0),
});

const cell = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2));

const rowToMarkdown = (row: Row): string => {
  const lines = [`## ${row.title}`, '', '| | n | p50 | p95 | p99 | |', '|---|--:|--:|--:|--:|---|'];
  for (const { name, unit, values } of row.measures) {
    lines.push(`| ${name} | ${values.n} | ${cell(values.p50)} | ${cell(values.p95)} | ${cell(values.p99)} | ${unit} |`);
  }
  for (const { name, p50, p95, p99 } of row.ratios) {
    lines.push(`| **${name}** | | **${cell(p50)}** | ${cell(p95)} | ${cell(p99)} | × |`);
  }
  for (const { name, value, limit, unit, pass } of row.bars) {
    lines.push('', `${pass ? '✔' : '✘'} ${name}: ${cell(value)} ${unit} (at most ${limit} ${unit})`);
  }
  for (const note of row.notes) lines.push('', note);
  return `${lines.join('\n')}\n`;
};

/** Formats the report as a page: one table per row, with the targets below it. */
export const toMarkdown = (report: Report): string => {
  const { cpu, cpus: count, memoryMiB, kernel, node, loadOneMinute } = report.machine;
  const head = [
    '# Benchmark',
    '',
    `${report.startedAt.slice(0, 16).replace('T', ' ')} UTC, ${report.durationSeconds} s; ${count} × ${cpu}, ${memoryMiB} MiB, Linux ${kernel}, Node ${node}, load at the start ${loadOneMinute}.`,
    'The contenders of a table were measured in turns in the same run, so the ratios mean more than the times.',
  ];
  const failures = report.failed.map(({ id, reason }) => `\n✘ Not measured: ${id}. ${reason}\n`);
  return `${head.join('\n')}\n\n${report.rows.map(rowToMarkdown).join('\n')}${failures.join('')}`;
};

/** Writes `<name>.json` and `<name>.md` into the folder. */
export const writeReport = async (folder: string, name: string, report: Report): Promise<void> => {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(join(folder, `${name}.md`), toMarkdown(report));
};
