import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { CodeBoxError, codeSchema, hasCode, type Context as Kernel, plainText } from '#contract';
import { jsonExcess, largeJson, longJson } from '../../../json/json-bounds.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { type Homes, toAbsolute } from './homes.ts';
import { readOutcome } from './outputs.ts';
import { createTextFiles } from './text-files.ts';

const described = { scope: 'run', tag: 'Open Terminal', responses: {} } as const;
const list = '/openterminal/notebooks';
const one = `${list}/{session}`;
const params = z.object({ session: z.string().max(64) });
const pathSchema = plainText().min(1).max(4096);
const cellSeconds = 120;

const text = z.union([z.string(), z.array(z.string())]).transform((value) => [value].flat().join(''));
const notebookSchema = z.looseObject({
  nbformat: z.literal(4),
  metadata: z.looseObject({ kernelspec: z.looseObject({ name: z.string() }).optional() }),
  cells: z.array(z.looseObject({ cell_type: z.string(), source: text })),
});
type Notebook = z.output<typeof notebookSchema>;
/** A session of the Jupyter server in the box. Its path begins with a nonce, because a notebook can have several here. */
const sessionSchema = z.object({
  id: z.string().max(64),
  path: z.string().transform((path) => path.slice(path.indexOf('/'))),
  kernel: z.object({ id: z.string() }),
});

const kernelOf = ({ metadata }: Notebook): string => metadata.kernelspec?.name ?? 'python3';

/** Returns the path of a session in the box. Throws `not_found` for a text that would lead to another path. */
const pathOf = (session: string): string => {
  if (!/^[\w-]+$/.test(session)) throw noSession();
  return `sessions/${session}`;
};

const noSession = () => new CodeBoxError('not_found', 'Session not found');
const orNone = (error: unknown): never => {
  throw hasCode(error, 'not_found') ? noSession() : error;
};

const parse = (content: string): Notebook => {
  try {
    const excess = jsonExcess(Buffer.from(content), longJson);
    if (excess !== undefined) throw new Error(`it ${excess}`);
    return notebookSchema.parse(JSON.parse(content.replace(/^\ufeff/, '')));
  } catch (cause) {
    throw new CodeBoxError('invalid_request', 'Invalid notebook: it is not one of nbformat 4, or too large.', {
      cause,
    });
  }
};

/** `/notebooks`: the cells of notebooks in the box of a user, each notebook with a kernel of its own for each session. */
export const addNotebookRoutes = ({ add }: Endpoints, parts: RouteParts, homes: Homes): void => {
  const { contexts, executions, files, jupyter } = parts;
  const { read, write } = createTextFiles(files);

  const find = async (ref: BoxRef, session: string): Promise<{ kernel: Kernel; path: string }> => {
    const { value } = await jupyter.ask(ref, { method: 'GET', path: pathOf(session) }, sessionSchema).catch(orNone);
    const kernel = (await contexts.list(ref)).find(({ id }) => id === value.kernel.id);
    if (!kernel) throw noSession();
    return { kernel, path: value.path };
  };

  add(
    { ...described, method: 'post', path: list, summary: 'Start a session', body: z.object({ path: pathSchema }) },
    async ({ c, tenant, body: { path: given } }) => {
      const ref = await homes.find(c, tenant);
      const path = toAbsolute(given);
      const kernel = kernelOf(parse((await read(ref, path)).text));
      const { id, language: name } = await contexts.create(ref, { language: kernel });
      const asked = { path: randomUUID() + path, name: '', type: 'notebook', kernel: { id, name } };
      const body = Readable.from([Buffer.from(JSON.stringify(asked))]);
      try {
        const { value } = await jupyter.ask(ref, { method: 'POST', path: 'sessions', body }, sessionSchema);
        return c.json({ id: value.id, kernel, status: 'ready' });
      } catch (error) {
        await contexts.delete(ref, id).catch(() => {});
        throw error;
      }
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: `${one}/execute`,
      summary: 'Run a cell, and store its outputs in the notebook',
      params,
      body: z.object({ cell_index: z.int(), source: codeSchema.nullish() }),
      bounds: largeJson,
    },
    async ({ c, tenant, params: { session }, body }) => {
      const ref = await homes.find(c, tenant);
      const { kernel, path } = await find(ref, session);
      if (kernel.state === 'busy') throw new CodeBoxError('conflict', 'Cell already executing');
      const { text: content, etag } = await read(ref, path);
      const notebook = parse(content);
      const cell = body.cell_index < 0 ? undefined : notebook.cells[body.cell_index];
      if (!cell) {
        const last = notebook.cells.length - 1;
        throw new CodeBoxError('invalid_request', `cell_index ${body.cell_index} out of range (0..${last})`);
      }
      cell.source = body.source ?? cell.source;
      const isCode = cell.cell_type === 'code' && cell.source.trim() !== '';
      const ask = { code: cell.source, context: kernel.id, timeoutSeconds: cellSeconds, unattended: true };
      const { events } = isCode ? await executions.start(ref, ask) : {};
      const { count, hasFailed, outputs } = await readOutcome(events ?? noEvents());
      if (cell.cell_type === 'code') Object.assign(cell, { outputs, execution_count: count });
      await write(ref, path, `${JSON.stringify(notebook, null, 1)}\n`, etag);
      return c.json({ status: hasFailed ? 'error' : 'ok', execution_count: count, outputs });
    },
  );

  add(
    { ...described, method: 'get', path: one, summary: 'Read a session', params },
    async ({ c, tenant, params: { session } }) => {
      const ref = await homes.find(c, tenant);
      const { kernel, path } = await find(ref, session);
      const name = kernelOf(parse((await read(ref, path)).text));
      return c.json({ id: session, path, kernel: name, status: kernel.state === 'busy' ? 'busy' : 'ready' });
    },
  );

  add(
    { ...described, method: 'delete', path: one, summary: 'End a session', params },
    async ({ c, tenant, params: { session } }) => {
      const ref = await homes.find(c, tenant);
      const { body } = await jupyter.request(ref, { method: 'DELETE', path: pathOf(session) }).catch(orNone);
      body.resume();
      return c.json({ status: 'stopped' });
    },
  );
};

async function* noEvents(): AsyncGenerator<never> {}
