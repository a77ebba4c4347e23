import { boxStatsEventSchema, boxStatsQuerySchema, boxStatsSchema } from '#contract';
import { streamEvents, streamFormat } from '../../../http/stream.ts';
import type { Stats } from '../../boxes/reach/stats.ts';
import type { Endpoints } from '../endpoint.ts';
import { boxParams } from './boxes.ts';

/** `/v1/boxes/{box}/stats`. */
export const addStatsRoute = ({ add }: Endpoints, stats: Stats, stopping: AbortSignal): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/stats',
      scope: 'boxes:read',
      summary: 'What it uses now and at most; streamed live when Accept asks for a stream',
      tag: 'Boxes',
      params: boxParams,
      query: boxStatsQuerySchema,
      responses: {
        200: {
          description: 'One sample, or one after each pause until the box ends.',
          types: {
            'application/json': boxStatsSchema,
            'text/event-stream': boxStatsEventSchema,
            'application/x-ndjson': boxStatsEventSchema,
          },
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      const format = streamFormat(c);
      const first = await stats.read({ tenant, box: params.box });
      if (!format) return c.json(first);
      const leave = new AbortController();
      const events = stats.watch({ tenant, box: params.box }, query.everySeconds * 1000, leave.signal);
      const onError = (error: unknown) =>
        c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err: error }, 'a stream broke');
      return streamEvents(c, { format, events, leave, stopping, onError });
    },
  );
};
