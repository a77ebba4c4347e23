import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import type { ExecutionDone } from '#contract';
import { createExecutionMetrics } from './execution-metrics.ts';

const done = { seq: 2, type: 'done', status: 'ok', durationMs: 5, queuedMs: 1, stateLost: false } as const;

test('made-up causes, languages and times of a box add no series and do not distort sums', async () => {
  const registry = new Registry();
  const ended = createExecutionMetrics(registry, ['python']);
  for (let i = 0; i < 100; i++) {
    const lie: ExecutionDone = { ...done, durationMs: 1e10, cause: { code: `c${i}`, detail: '' } };
    ended(lie, `language-${i}`);
  }
  ended({ ...done, cause: { code: 'oom', detail: '' } }, 'python');
  ended(done, 'python');
  const text = await registry.metrics();
  expect(text.match(/^codebox_executions_total.*$/gm)).toEqual([
    'codebox_executions_total{status="ok",cause="other",language="other"} 100',
    'codebox_executions_total{status="ok",cause="oom",language="python"} 1',
    'codebox_executions_total{status="ok",cause="none",language="python"} 1',
  ]);
  const sum = Number(/^codebox_execution_run_seconds_sum\{language="other"\} (\S+)$/m.exec(text)?.[1]);
  expect(sum).toBeLessThanOrEqual(100 * 4000);
});
