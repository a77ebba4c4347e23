import { watchEventSchema, watchQuerySchema } from '#contract';
import { streamEvents, streamFormat } from '../../../../http/bodies/stream.ts';
import type { FileWatch } from '../../../boxes/reach/file-watch.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';

/** `GET /v1/boxes/{box}/files:watch`: changes as they happen. */
export const addFileWatchRoute = ({ add }: Endpoints, watch: FileWatch, stopping: AbortSignal): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/files:watch',
      scope: 'files',
      summary: 'Stream changes of files; resume from a version with `after` or Last-Event-ID',
      tag: 'Files',
      params: boxParams,
      query: watchQuerySchema,
      responses: {
        200: {
          description: 'Changes as they happen; NDJSON unless Accept asks for SSE.',
          types: { 'application/x-ndjson': watchEventSchema, 'text/event-stream': watchEventSchema },
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      const last = c.req.header('last-event-id') ?? '';
      const after = query.after ?? (/^\d{1,12}$/.test(last) ? Number(last) : undefined);
      const leave = new AbortController();
      const events = await watch.open({ tenant, box: params.box }, { ...query, after }, leave.signal);
      const onError = (err: unknown) => {
        if (!leave.signal.aborted) c.get('log').warn({ err }, 'a watch was interrupted');
      };
      return streamEvents(c, { format: streamFormat(c) ?? 'ndjson', events, leave, stopping, onError });
    },
  );
};
