import type { Context } from 'hono';
import { z } from 'zod';
import { CodeBoxError, codeSchema, plainText, timeoutSecondsSchema, urlPathSchema } from '#contract';
import { type StreamWire, streamAs } from '../../../http/bodies/stream.ts';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { type Env, noteBox } from '../../http/env.ts';
import { receiveFiles, respondWithFile } from '../files.ts';
import { type Chunk, chunksOf, toTags } from './chunks.ts';
import type { RunEvent } from './outputs.ts';
import { createRuns } from './runs.ts';

const longestSeconds = 3600;
const shellCode = plainText().max(131_072);
const sessionSchema = plainText().min(1).max(240);
const execSchema = z
  .object({
    code: codeSchema,
    kernel: z.enum(['ipython', 'bash']).default('ipython'),
    cwd: plainText().max(4096).nullish(),
    timeout: timeoutSecondsSchema.nullish(),
  })
  .refine(({ code, kernel }) => kernel !== 'bash' || shellCode.safeParse(code).success, {
    path: ['code'],
    message: 'must have at most 131072 characters and no NUL for bash',
  });
const legacySchema = z.object({ properties: z.object({ code: codeSchema }) });
const described = { scope: 'run', tag: 'CodeBoxAPI', responses: {} } as const;
/**
 * The synchronous client sends a request once more if it finds a connection of an earlier event loop in its pool, so that code would run
 * twice.
 */
const connection = { Connection: 'close' };

/** An empty chunk is the only keep-alive that the client skips. */
const wire: StreamWire<string> = {
  type: 'text/plain; charset=utf-8',
  encode: (tags) => tags,
  ping: '<txt></txt>',
  fail: (error) => toTags({ type: 'err', content: `RuntimeError: ${error.message}` }),
};

/** `/api/v2/codebox/{session}`: the client chooses the id of a session, and its first request creates the box. */
export const addV2Routes = ({ add, addRaw }: Endpoints, parts: RouteParts): void => {
  const { creation, catalog, files, stopping } = parts;
  const runs = createRuns(parts);

  /** Returns the box of the request's session once it is ready: the reusable box of a user that is named after the session. */
  const open = async (c: Context<Env>, tenant: string): Promise<BoxRef> => {
    c.header('Connection', connection.Connection);
    const session = checkInput(sessionSchema, c.req.param('session'), '/path/session');
    const factory = c.req.header('factory-id') ?? 'default';
    const template = factory === 'default' ? undefined : catalog.list().find(({ name }) => name === factory)?.name;
    if (factory !== 'default' && template === undefined)
      throw new CodeBoxError('not_found', 'There is no such factory.');
    const asked = { user: `codeboxapi/${session}`, reuse: true, ...(template !== undefined && { template }) };
    const { box } = await creation.create(tenant, asked);
    noteBox(c, box.id);
    return refOf(box);
  };

  add(
    {
      ...described,
      method: 'post',
      path: '/api/v2/codebox/{session}/exec',
      summary: 'Run code and stream its output',
      body: execSchema,
      bounds: largeJson,
    },
    async ({ c, tenant, body: { timeout, ...request } }) => {
      const ref = await open(c, tenant);
      const leave = new AbortController();
      const timeoutSeconds = timeout ?? longestSeconds;
      const events = tagged(await runs.start(ref, { ...request, timeoutSeconds }, leave.signal));
      const onError = (err: unknown) => c.get('log').warn({ err }, 'a stream broke');
      return streamAs(c, wire, { events, leave, stopping, onError });
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/api/v2/codebox/{session}/code/execute',
      summary: 'Run code and wait for its output',
      body: legacySchema,
      bounds: largeJson,
    },
    async ({ c, tenant, body }) => {
      const ref = await open(c, tenant);
      const leave = new AbortController();
      c.env?.outgoing?.once('close', () => leave.abort());
      const request = { code: body.properties.code, kernel: 'ipython' as const, timeoutSeconds: longestSeconds };
      const chunks: Chunk[] = [];
      for await (const event of await runs.start(ref, request, leave.signal)) chunks.push(...chunksOf(event));
      const contents = (type: Chunk['type']) => chunks.flatMap((chunk) => (chunk.type === type ? [chunk.content] : []));
      const text = contents('txt').join('');
      return c.json({ properties: { stdout: text, stderr: contents('err'), result: text } });
    },
  );

  addRaw(
    {
      ...described,
      method: 'post',
      path: '/api/v2/codebox/{session}/files/upload',
      summary: 'Upload a file, whose name is its path',
    },
    async ({ c, tenant }) => {
      await receiveFiles(c, files, await open(c, tenant));
      return c.json(null);
    },
  );

  addRaw(
    {
      ...described,
      method: 'get',
      path: '/api/v2/codebox/{session}/files/download/{path}',
      summary: 'Download a file',
      params: z.object({ path: urlPathSchema }),
    },
    async ({ c, tenant, params: { path } }) => respondWithFile(c, files, await open(c, tenant), path, connection),
  );
};

async function* tagged(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  for await (const event of events) {
    const tags = chunksOf(event).map(toTags).join('');
    if (tags !== '') yield tags;
  }
}
