import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { projectFolder } from '../../scripts/project.ts';
import { createMetrics } from '../../services/gateway/http/metrics/metrics.ts';
import { createPoolMetrics } from '../../services/gateway/http/metrics/pool-metrics.ts';
import { addUsageMetrics } from '../../services/gateway/http/metrics/usage-metrics.ts';
import { parsePromql } from './promql.ts';

const alertsSchema = z.object({
  groups: z.array(
    z.strictObject({
      name: z.string(),
      rules: z.array(
        z.strictObject({
          alert: z.string().regex(/^CodeBox[A-Z]\w+$/),
          expr: z.string(),
          for: z
            .string()
            .regex(/^\d+[mh]$/)
            .optional(),
          labels: z.strictObject({ severity: z.enum(['page', 'ticket']) }),
          annotations: z.strictObject({ summary: z.string().min(10), runbook: z.string().min(40) }),
        }),
      ),
    }),
  ),
});
const dashboardSchema = z.object({
  panels: z.array(
    z.object({
      id: z.int(),
      title: z.string(),
      type: z.enum(['row', 'stat', 'timeseries']),
      gridPos: z.object({ h: z.int(), w: z.int(), x: z.int(), y: z.int() }),
      targets: z.array(z.object({ expr: z.string() })).optional(),
    }),
  ),
  templating: z.object({ list: z.array(z.object({ name: z.string(), definition: z.string().optional() })) }),
});

const readDeploy = (path: string) => readFile(join(projectFolder, 'deploy', path), 'utf8');
const readAlerts = async () => alertsSchema.parse(parse(await readDeploy('helm/codebox/files/alerts.yaml'))).groups;
const readDashboard = async () =>
  dashboardSchema.parse(JSON.parse(await readDeploy('helm/codebox/files/dashboard.json')));

/** The labels that Prometheus adds to every series, and its own series. */
const ofScrape = ['instance', 'job'];
const series = new Map([['up', ofScrape]]);

const addSeries = (registry: Registry) => {
  for (const metric of registry.getMetricsAsArray()) {
    const names = 'labelNames' in metric ? z.array(z.string()).parse(metric.labelNames) : [];
    const labels = [...names, ...ofScrape];
    if (String(metric.type) !== 'histogram') series.set(metric.name, labels);
    else for (const part of ['_bucket', '_sum', '_count']) series.set(metric.name + part, [...labels, 'le']);
  }
};

const { registry } = createMetrics({
  countBoxes: async () => ({}),
  database: { ping: async () => {}, connections: () => ({ used: 0, idle: 0, waiting: 0 }) },
  languages: [],
});
addUsageMetrics(registry, async () => new Map());
createPoolMetrics(registry, {
  templates: [],
  ceiling: { memoryMb: 0 },
  census: async () => ({ found: [], wanted: [], promisedMb: 0 }),
  countWaiting: async () => 0,
});
addSeries(registry);

/** Returns the faults of an expression. */
const faultsOf = (expression: string): string[] => {
  // Grafana substitutes these variables.
  const { selected, grouping } = parsePromql(
    expression.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
  );
  const unknown = selected.flatMap(({ series: name, labels }) => {
    const known = series.get(name);
    if (!known) return [`there is no series ${name}`];
    return labels.filter((label) => !known.includes(label)).map((label) => `${name} has no label ${label}`);
  });
  const all = selected.flatMap(({ series: name }) => series.get(name) ?? []);
  const idle = grouping.filter((label) => !all.includes(label)).map((label) => `nothing here has a label ${label}`);
  return [...unknown, ...idle, ...(selected.length === 0 ? ['it reads no series'] : [])];
};

describe('alerts and dashboard', () => {
  test('every alert is valid PromQL over existing series and labels', async () => {
    const rules = (await readAlerts()).flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(10);
    expect(new Set(rules.map((rule) => rule.alert)).size).toBe(rules.length);
    for (const { alert, expr } of rules) expect([alert, faultsOf(expr)]).toEqual([alert, []]);
  });

  test('the summary of an alert uses only labels that its expression keeps', async () => {
    for (const { alert, expr, annotations } of (await readAlerts()).flatMap((group) => group.rules)) {
      const used = [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label);
      const { selected, grouping } = parsePromql(expr);
      const isAggregated = /\b(?:sum|max|min|avg|count)\b/.test(expr);
      const kept = isAggregated ? grouping : selected.flatMap((one) => series.get(one.series) ?? []);
      for (const label of used) expect([alert, kept]).toEqual([alert, expect.arrayContaining([label])]);
    }
  });

  test('every panel of the dashboard is valid PromQL over existing series, and no panels overlap', async () => {
    const { panels, templating } = await readDashboard();
    const taken = new Set<string>();
    for (const { title, type, gridPos, targets = [] } of panels) {
      for (const { expr } of targets) expect([title, expr, faultsOf(expr)]).toEqual([title, expr, []]);
      expect([title, targets.length > 0]).toEqual([title, type !== 'row']);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([title, x, y, taken.has(`${x},${y}`)]).toEqual([title, x, y, false]);
          taken.add(`${x},${y}`);
        }
      }
    }
    expect(new Set(panels.map((panel) => panel.id)).size).toBe(panels.length);
    const names = templating.list.flatMap(
      ({ definition }) => /^label_values\((\w+), instance\)$/.exec(definition ?? '')?.[1] ?? [],
    );
    for (const name of names) expect(series.has(name)).toBe(true);
  });

  test('the dashboard shows every series of the gateway', async () => {
    const { panels } = await readDashboard();
    const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n');
    const own = registry.getMetricsAsArray().flatMap(({ name }) => (name.startsWith('codebox_') ? [name] : []));
    const isShown = (name: string) => new RegExp(`\\b${name}(?:_bucket|_count|_sum)?\\b`).test(expressions);
    expect(own.filter((name) => !isShown(name))).toEqual([]);
  });

  test('docs/operate.md lists exactly the series of the gateway', async () => {
    const table =
      /^## Observe$(.*?)^## /ms.exec(await readFile(join(projectFolder, 'docs/operate.md'), 'utf8'))?.[1] ?? '';
    const documented = [...table.matchAll(/`(codebox_\w*)(?:\{([\w,]+)\}(\w*))?/g)].flatMap(
      ([, name = '', inner = '']) => (name.endsWith('_') ? inner.split(',').map((part) => name + part) : [name]),
    );
    const own = registry.getMetricsAsArray().flatMap(({ name }) => (name.startsWith('codebox_') ? [name] : []));
    expect(documented.sort()).toEqual(own.sort());
  });

  test.each([
    ['sum(rate(codebox_nothing_total[5m]))', 'there is no series codebox_nothing_total'],
    ['sum by (box) (codebox_boxes)', 'nothing here has a label box'],
    ['codebox_boxes{box="1"}', 'codebox_boxes has no label box'],
    ['1 > 2', 'it reads no series'],
  ])('a fault is reported: %s', (expression, fault) => {
    expect(faultsOf(expression)).toEqual([fault]);
  });

  test('invalid PromQL is refused', () => {
    expect(() => parsePromql('sum by (le (codebox_boxes)')).toThrow(/is not PromQL/);
  });
});
