import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { isPaused, requireSandbox } from './sandbox.ts';

/** The time between the two samples from which the use of CPUs is computed. */
const intervalMs = 200;

/** The current resource use of a sandbox; earlier use is not recorded. */
export const addMetricsRoute = (
  { add }: Endpoints,
  { stats, directory }: Pick<RouteParts, 'stats' | 'directory'>,
): void =>
  add(
    {
      method: 'get',
      path: '/sandboxes/{box}/metrics',
      scope: 'boxes:read',
      summary: 'Read the resource use of a sandbox',
      tag: 'Sandboxes',
      params: z.object({ box: z.string() }),
      query: z.object({ start: z.coerce.number().optional(), end: z.coerce.number().optional() }),
      responses: {},
    },
    async ({ c, tenant, params: { box }, query: { start = 0, end = Number.POSITIVE_INFINITY } }) => {
      const ref = { tenant, box };
      const now = Date.now() / 1000;
      // A client that asks for the time until now rounds that to a second.
      if (isPaused(requireSandbox(await directory.find(ref))) || start > now + 1 || end < now - 1) return c.json([]);
      const earlier = await stats.read(ref);
      await sleep(intervalMs);
      const { at, cpu, memory, disk } = await stats.read(ref);
      const wallMs = Date.parse(at) - Date.parse(earlier.at);
      const usedPct = wallMs > 0 ? ((cpu.usedMs - earlier.cpu.usedMs) / wallMs / cpu.limitCpus) * 100 : 0;
      return c.json([
        {
          timestamp: at,
          timestampUnix: Math.floor(Date.parse(at) / 1000),
          cpuCount: Math.ceil(cpu.limitCpus),
          cpuUsedPct: Math.round(Math.max(0, usedPct) * 100) / 100,
          memUsed: memory.usedBytes,
          memTotal: memory.limitBytes,
          // The memory in use is measured without the cache.
          memCache: 0,
          diskUsed: disk?.usedBytes ?? 0,
          diskTotal: disk?.limitBytes ?? 0,
        },
      ]);
    },
  );
