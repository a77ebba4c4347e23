import { boxStatsEventSchema, boxStatsQuerySchema, boxStatsSchema } from '#contract';
import { streamEvents, streamFormat } from '../../../../http/bodies/stream.ts';
import type { Stats } from '../../../boxes/reach/stats.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from './boxes.ts';

/** `/v1/boxes/{box}/stats`. */
export const addStatsRoute = ({ add }: Endpoints, stats: Stats, stopping: AbortSignal): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/stats',
      scope: 'boxes:read',
      summary: 'Read the current and maximum usage of a box, or stream it with Accept',
      tag: 'Boxes',
      params: boxParams,
      query: boxStatsQuerySchema,
      responses: {
        200: {
          description: 'One sample, or a stream of samples until the box ends.',
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
