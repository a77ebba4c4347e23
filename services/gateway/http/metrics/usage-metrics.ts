import { Gauge, type Registry } from 'prom-client';
import type { TemplateUsage } from '../../boxes/usage/usage.ts';
import { withinScrape } from './scrape.ts';

/** What a series takes of the sums of a template. */
const series: { name: string; help: string; value: (usage: TemplateUsage) => number }[] = [
  { name: 'sampled', help: 'Boxes that the sums are of.', value: ({ sampled }) => sampled },
  { name: 'cpu_seconds', help: 'CPU time that the boxes there are have used.', value: ({ cpuMs }) => cpuMs / 1000 },
  { name: 'memory_bytes', help: 'Memory that boxes use.', value: ({ memoryBytes }) => memoryBytes },
  { name: 'pids', help: 'Processes and threads of boxes.', value: ({ pids }) => pids },
  {
    name: 'oom_kills',
    help: 'Processes of the boxes there are that the memory limit ended.',
    value: (u) => u.oomKills,
  },
];

/** Series of what boxes use, by template. A scrape samples the boxes; one that cannot be had leaves them out. */
export const addUsageMetrics = (registry: Registry, sample: () => Promise<Map<string, TemplateUsage>>): void => {
  for (const { name, help, value } of series) {
    new Gauge({
      name: `codebox_boxes_${name}`,
      help: `${help} By template; gateways of one deployment tell the same.`,
      labelNames: ['template'],
      registers: [registry],
      async collect() {
        // Without a database the other series are still worth having.
        const usage = await withinScrape(sample()).catch(() => new Map<string, TemplateUsage>());
        this.reset();
        for (const [template, sum] of usage) this.set({ template }, value(sum));
      },
    });
  }
};
