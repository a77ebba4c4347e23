import { z } from 'zod';
import { CodeBoxError, type Context as CodeContext, executionFields, hasCode } from '#contract';
import { type StreamWire, streamAs } from '../../../../http/bodies/stream.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { toBoxPath, toSandboxPath } from '../paths.ts';
import type { Running } from '../running.ts';
import { toLines } from './lines.ts';
import { createUsualContexts, languageOf } from './usual-contexts.ts';

const described = { tag: 'Code interpreter', responses: {} };
const params = z.object({ context: z.string().max(64) });
/** E2B has no time limit of its own: its client leaves when it has waited long enough, and that stops the code. */
const timeoutSeconds = 3600;

const executeSchema = z
  .object({
    code: executionFields.code,
    context_id: z.string().max(64).nullish(),
    language: executionFields.language.nullish(),
    env_vars: executionFields.env.nullish(),
  })
  .refine((body) => typeof body.context_id !== 'string' || typeof body.language !== 'string', {
    error: 'Only one of context_id or language can be provided',
  });

const wire: StreamWire<object> = {
  type: 'application/x-ndjson',
  encode: (line) => `${JSON.stringify(line)}\n`,
  ping: '{"type":"keepalive"}\n',
};

/** E2B's code interpreter: code that runs in the kernels of a sandbox. */
export const addInterpreterRoutes = (
  { add }: Endpoints,
  { executions, contexts, stopping }: Pick<RouteParts, 'executions' | 'contexts' | 'stopping'>,
  running: Running,
): void => {
  const usual = createUsualContexts(contexts);

  add(
    {
      ...described,
      method: 'post',
      path: '/execute',
      scope: 'run',
      summary: 'Run code and stream its output',
      body: executeSchema,
      bounds: largeJson,
    },
    async ({ c, body }) => {
      const ref = await running.of(c);
      const leave = new AbortController();
      const { code, context_id: context, env_vars: env } = body;
      const language = languageOf(context ?? '') ?? body.language;
      const ask = {
        code,
        timeoutSeconds,
        ...(language ? { language } : context && { context }),
        ...(env && { env }),
      };
      const { row, events } = await executions
        .start(ref, { ...ask, isLong: true }, leave.signal)
        .catch((error: unknown) => {
          throw context && hasCode(error, 'not_found') ? noSuchContext(context) : error;
        });
      const interrupt = () => executions.interrupt(ref, row.id);
      leave.signal.addEventListener('abort', () => {
        // A stopping gateway cuts the stream too, but the client has not left.
        if (!stopping.aborted) interrupt().catch((err: unknown) => c.get('log').info({ err }, 'could not stop code'));
      });
      if (!events) throw new Error('an execution that is followed has no events');
      const lines = toLines(events, { interrupt, checkRunning: () => running.check(c) });
      const onError = (err: unknown) =>
        c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
      return streamAs(c, wire, { events: lines, leave, stopping, onError });
    },
  );

  add({ ...described, method: 'get', path: '/contexts', scope: 'run', summary: 'List contexts' }, async ({ c }) => {
    const ref = await running.of(c);
    const started = await contexts.list(ref);
    return c.json([...(await usual.waiting(ref, started)), ...started.map(toContext)]);
  });

  add(
    {
      ...described,
      method: 'post',
      path: '/contexts',
      scope: 'run',
      summary: 'Create a context',
      body: z.object({ language: executionFields.language.nullish(), cwd: z.string().max(4096).nullish() }),
    },
    async ({ c, body: { language, cwd } }) => {
      const folder = cwd ? toBoxPath(cwd) : '';
      const ask = { ...(language && { language }), ...(folder !== '' && { cwd: folder }) };
      return c.json(toContext(await contexts.create(await running.of(c), ask)));
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/contexts/{context}',
      scope: 'run',
      summary: 'End a context',
      params,
    },
    async ({ c, params: { context } }) => {
      const ref = await running.of(c);
      const id = await usual.idOf(ref, context);
      if (id !== undefined) await contexts.delete(ref, id).catch(orNoSuch(context));
      return c.body(null, 200);
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/contexts/{context}/restart',
      scope: 'run',
      summary: 'Restart a context: its variables are gone',
      params,
    },
    async ({ c, params: { context } }) => {
      const ref = await running.of(c);
      const id = await usual.idOf(ref, context);
      if (id !== undefined) await contexts.restart(ref, id).catch(orNoSuch(context));
      return c.body(null, 200);
    },
  );
};

const noSuchContext = (id: string) => new CodeBoxError('not_found', `Context ${id} not found`);

const orNoSuch =
  (id: string) =>
  (error: unknown): never => {
    throw hasCode(error, 'not_found') ? noSuchContext(id) : error;
  };

const toContext = ({ id, language, cwd }: CodeContext) => ({ id, language, cwd: toSandboxPath(cwd) });
