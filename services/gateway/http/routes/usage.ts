import { type Page, type Usage, usagePageSchema, usageQuerySchema } from '#contract';
import type { UsageRow, UsageStore } from '../../store/usage/usage.ts';
import type { Endpoints } from '../endpoint.ts';

export interface UsageParts {
  usage: UsageStore;
}

/** `/v1/usage`: the usage of the calling tenant. */
export const addUsageRoutes = ({ add }: Endpoints, parts: UsageParts): void => {
  add(
    {
      method: 'get',
      path: '/v1/usage',
      scope: 'usage',
      summary: 'Read your usage, by day and user, the newest day first',
      tag: 'Usage',
      query: usageQuerySchema,
      responses: { 200: { description: 'A page of days.', schema: usagePageSchema } },
    },
    async ({ c, tenant, query }) => c.json(toUsagePage(await parts.usage.list(tenant, query))),
  );
};

/** Converts rows to JSON. */
export const toUsagePage = ({ items, nextCursor }: Page<UsageRow>): Page<Usage> => ({
  items: items.map((row) => ({
    day: row.day,
    user: row.userId === '' ? null : row.userId,
    boxes: row.boxes,
    boxSeconds: row.boxMs / 1000,
    executions: row.executions,
    wallMs: row.wallMs,
    cpuMs: row.cpuMs,
    peakMemoryBytes: row.peakMemoryBytes,
  })),
  nextCursor,
});
