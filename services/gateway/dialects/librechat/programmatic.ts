import { randomBytes } from 'node:crypto';
import type { Context } from 'hono';
import { z } from 'zod';
import { CodeBoxError, type CommandEvent, hasCode, timeoutSecondsSchema } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import { streamText } from '../../boxes/runs/commands.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Env } from '../../http/env.ts';
import { inputSchema, type Places, runSchema, toResult } from './runs.ts';
import type { Sessions } from './sessions.ts';
import { toolRunner } from './tool-runner.ts';

/** The longest duration of a run, including the calls of its tools. */
const lifeSeconds = 600;
/** The largest message to the stdin of a process, in characters. */
const maxResults = 1_048_576;

const startSchema = runSchema.extend({
  lang: z.enum(['py', 'python', 'bash']).default('python'),
  tools: z.array(z.object({ name: z.string().min(1).max(256) })).max(100),
});
const resultSchema = z.object({
  call_id: z.string().max(64),
  result: z.unknown(),
  is_error: z.boolean().default(false),
  error_message: z.string().optional(),
});
const continueSchema = z.object({
  continuation_token: z.string().min(1).max(1_000_000),
  tool_results: z.array(resultSchema).max(1000),
});
/** The state that the next request needs. It concerns only the tenant, and the run has to be in a session of that tenant. */
const tokenSchema = z.object({
  session: z.string(),
  continuity: z.enum(['new', 'reused', 'restored', 'lost']),
  command: z.string(),
  mark: z.string().min(1),
  batch: z.number(),
  timeout: timeoutSecondsSchema,
  files: z.array(inputSchema),
  runtime_session_hint: z.string().optional(),
});
const callsSchema = z.array(z.object({ id: z.string(), name: z.string(), input: z.unknown() }));

type Token = z.output<typeof tokenSchema>;

const parse = <T>(schema: z.ZodType<T>, json: string): T | undefined => {
  try {
    return schema.safeParse(JSON.parse(json)).data;
  } catch {
    return undefined;
  }
};

/** Separates the calls of tools from the output: lines that begin with the mark. */
const createSeparation = (mark: string) => {
  const batches: string[] = [];
  let [text, searched] = ['', 0];
  return {
    batches,
    text: () => text,
    add(more: string): void {
      text += more;
      for (;;) {
        const start = text.indexOf(mark, searched);
        const end = start < 0 ? -1 : text.indexOf('\n', start);
        searched = start < 0 ? Math.max(0, text.length - mark.length) : start;
        if (end < 0) return;
        batches.push(text.slice(start + mark.length, end));
        text = text.slice(0, start) + text.slice(end + 1);
      }
    },
  };
};

/** `/exec/programmatic`: code that calls tools of the client. Its process waits in the box while the client runs them. */
export const addProgrammaticRoute = (
  { add }: Endpoints,
  { commands }: Pick<RouteParts, 'commands'>,
  places: Places,
  sessions: Sessions,
): void => {
  /** Follows a run to its next calls or to its end. The run is ended when its client leaves, or when it takes too long. */
  const advance = async (c: Context<Env>, ref: BoxRef, token: Token): Promise<Response> => {
    const leave = new AbortController();
    const abandon = () => leave.abort();
    const late = AbortSignal.timeout(token.timeout * 1000);
    const stop = AbortSignal.any([leave.signal, late]);
    const output = createSeparation(token.mark);
    const events: CommandEvent[] = [];
    c.env?.outgoing?.once('close', abandon);
    try {
      for await (const event of commands.events(ref, token.command, 0, stop)) {
        if (event.type === 'stdout') output.add(event.text);
        else events.push(event);
        const batch = output.batches[token.batch];
        if (batch === undefined) continue;
        const tool_calls = parse(callsSchema, batch);
        if (!tool_calls) throw new CodeBoxError('invalid_request', 'The code has written calls itself.');
        const continuation_token = Buffer.from(JSON.stringify(token)).toString('base64url');
        return c.json({ status: 'tool_call_required', session_id: token.session, continuation_token, tool_calls });
      }
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      c.env?.outgoing?.off('close', abandon);
    }
    const done = events.at(-1);
    if (done?.type === 'done') {
      const result = toResult({ id: token.session, continuity: token.continuity }, token, events, done);
      return c.json({ ...result, status: 'completed', stdout: output.text() });
    }
    if (!stop.aborted) throw new CodeBoxError('unavailable', 'The run ended without its last event.');
    await commands.kill(ref, token.command).catch((error: unknown) => {
      // The process has already ended.
      if (!hasCode(error, 'conflict')) throw error;
    });
    // An HTTP error would hide the cause from the model.
    const note = `The code ran for more than ${token.timeout} s without a call.\n`;
    const written = { stdout: output.text(), stderr: streamText(events, 'stderr') + note };
    return c.json({ status: 'error', session_id: token.session, error: 'Time limit exceeded', ...written });
  };

  add(
    {
      method: 'post',
      path: '/librechat/exec/programmatic',
      scope: 'run',
      summary: 'Run code that calls tools of the client',
      tag: 'LibreChat',
      body: z.union([continueSchema, startSchema]),
      bounds: largeJson,
      responses: {},
    },
    async ({ c, tenant, body }) => {
      if ('continuation_token' in body) {
        const given = Buffer.from(body.continuation_token, 'base64url').toString();
        const token = checkInput(tokenSchema.optional(), parse(tokenSchema, given), '/continuation_token');
        if (!token) throw new CodeBoxError('not_found', 'There is no such run.');
        const ref = await sessions.find(c, tenant, token.session, c.get('endUser'));
        const text = `${JSON.stringify([token.batch, body.tool_results])}\n`;
        if (text.length > maxResults)
          throw new CodeBoxError('too_large', `The results have more than ${maxResults} characters.`);
        await commands.input(ref, token.command, { text }).catch((error: unknown) => {
          // The process has already ended; its result says why.
          if (!hasCode(error, 'conflict')) throw error;
        });
        return await advance(c, ref, { ...token, batch: token.batch + 1 });
      }
      const { id, ref, continuity } = await places.open(c, tenant, body);
      const mark = randomBytes(16).toString('hex');
      const names = JSON.stringify(body.tools.map(({ name }) => name));
      const language = body.lang === 'bash' ? 'bash' : 'python';
      const argv = ['python3', '-c', toolRunner, mark, language, names, body.code];
      const { id: command } = await commands.start(ref, { argv, detach: true, timeoutSeconds: lifeSeconds });
      const { timeout, files, runtime_session_hint } = body;
      const token = { session: id, continuity, command, mark, batch: 0, timeout, files, runtime_session_hint };
      return await advance(c, ref, token);
    },
  );
};
