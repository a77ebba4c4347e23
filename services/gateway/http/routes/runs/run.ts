import { CodeBoxError, createRunSchema, runCodeQuerySchema, runEventSchema, runSchema } from '#contract';
import { streamEvents, streamFormat } from '../../../../http/bodies/stream.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { RunOnce } from '../../../boxes/runs/run.ts';
import type { Endpoints } from '../../endpoint.ts';

export interface RunParts {
  run: RunOnce['whole'];
  streamRun: RunOnce['stream'];
  /** Aborted shortly before connections that still wait for a response are closed. */
  leaving: AbortSignal;
}

/** `/v1/run`: one run without a lasting box. */
export const addRunRoute = ({ add }: Endpoints, { run, streamRun, leaving }: RunParts): void => {
  add(
    {
      method: 'post',
      path: '/v1/run',
      scope: 'run',
      summary: 'Run code once, in a new box that is destroyed afterwards',
      tag: 'Run',
      body: createRunSchema,
      codeQuery: runCodeQuerySchema,
      bounds: largeJson,
      idempotent: true,
      responses: {
        200: {
          description: 'The outputs and the changed files, or the events, by Accept.',
          types: {
            'application/json': runSchema,
            'text/event-stream': runEventSchema,
            'application/x-ndjson': runEventSchema,
          },
        },
      },
    },
    async ({ c, tenant, body }) => {
      const leave = new AbortController();
      const progress = c.get('progress');
      const call = { onStart: () => progress?.hasStarted(), leave: leave.signal };
      // With an Idempotency-Key the client can ask for the result again, so the run goes on without it.
      if (!progress) c.env?.outgoing?.once('close', () => leave.abort(clientHasLeft()));
      const format = streamFormat(c);
      if (!format) return c.json(await run(tenant, body, call));
      const events = await streamRun(tenant, body, call);
      return streamEvents(c, {
        format,
        events,
        leave,
        stopping: leaving,
        canResume: false,
        onError: (err) => c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke'),
      });
    },
  );
};

/** The reason why a run without a lasting box ends early. */
export const clientHasLeft = () => new CodeBoxError('conflict', 'The client has left, which ends the run and its box.');
