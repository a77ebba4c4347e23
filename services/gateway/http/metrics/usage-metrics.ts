import { Gauge, type Registry } from 'prom-client';
import type { TemplateUsage } from '../../boxes/usage/usage.ts';
import { withinScrape } from './scrape.ts';

/** The series, each of one value of the sums of a template. */
const series: { name: string; help: string; value: (usage: TemplateUsage) => number }[] = [
  { name: 'sampled', help: 'Boxes that were sampled for the sums.', value: ({ sampled }) => sampled },
  { name: 'cpu_seconds', help: 'CPU time that the current boxes have used.', value: ({ cpuMs }) => cpuMs / 1000 },
  { name: 'memory_bytes', help: 'Memory that boxes use.', value: ({ memoryBytes }) => memoryBytes },
  { name: 'pids', help: 'Processes and threads of boxes.', value: ({ pids }) => pids },
  {
    name: 'oom_kills',
    help: 'Processes of the current boxes that were killed at the memory limit.',
    value: (u) => u.oomKills,
  },
];

/** Adds the series of the use of boxes, by template. Each scrape samples the boxes; when that fails, the series are left out. */
export const addUsageMetrics = (registry: Registry, sample: () => Promise<Map<string, TemplateUsage>>): void => {
  for (const { name, help, value } of series) {
    new Gauge({
      name: `codebox_boxes_${name}`,
      help: `${help} By template; all gateways of a deployment report the same value.`,
      labelNames: ['template'],
      registers: [registry],
      async collect() {
        // Without the database the other series are still useful.
        const usage = await withinScrape(sample()).catch(() => new Map<string, TemplateUsage>());
        this.reset();
        for (const [template, sum] of usage) this.set({ template }, value(sum));
      },
    });
  }
};
