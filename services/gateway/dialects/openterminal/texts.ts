import { z } from 'zod';
import { CodeBoxError, codeSchema, hasCode, plainText, queryInteger } from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Files } from '../../boxes/reach/files.ts';
import { type Homes, toAbsolute, toBoxPath } from './homes.ts';
import { createTextFiles } from './text-files.ts';
import type { Tools } from './tools.ts';

const path = plainText()
  .min(1)
  .max(4096)
  .meta({ description: 'The path of the file; relative ones begin at the home folder.' });
const line = queryInteger().min(1).optional();
/** How many entries a listing returns, which has no pages. */
const maxEntries = 10_000;
const pageSize = 1000;

const replacementSchema = z.object({
  target: z.string().min(1).meta({ description: 'The exact text to find.' }),
  replacement: z.string().meta({ description: 'What replaces it.' }),
  allow_multiple: z
    .boolean()
    .default(false)
    .meta({ description: 'Replace all occurrences; otherwise more than one is an error.' }),
});

/** Routes for models that list, read and write files and replace text in them. */
export const addTextRoutes = ({ add }: Tools, files: Files, homes: Homes): void => {
  const { read, write } = createTextFiles(files);

  add(
    {
      name: 'list_files',
      method: 'get',
      path: '/openterminal/files/list',
      scope: 'files',
      summary: 'List a folder',
      description: 'Lists the files and folders in a folder.',
      query: z.object({ directory: plainText().max(4096).default('.').meta({ description: 'The folder.' }) }),
    },
    async ({ c, tenant, query: { directory } }) => {
      const path = toBoxPath(directory);
      const ref = await (path === '' ? homes.lookUp(c, tenant) : homes.find(c, tenant));
      const entries: object[] = [];
      if (!ref) return c.json({ dir: toAbsolute(directory), writable: true, entries });
      let cursor: string | undefined;
      do {
        const page = await files.list(ref, path, { limit: pageSize, cursor }).catch((cause: unknown) => {
          throw hasCode(cause, 'invalid_request')
            ? new CodeBoxError('not_found', 'Directory not found', { cause })
            : cause;
        });
        for (const { name, type, sizeBytes, modifiedAt } of page.items) {
          const kind = type === 'directory' ? type : 'file';
          entries.push({ name, type: kind, size: sizeBytes, modified: Date.parse(modifiedAt) / 1000, writable: true });
        }
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined && entries.length < maxEntries);
      return c.json({ dir: toAbsolute(directory), writable: true, entries });
    },
  );

  add(
    {
      name: 'read_file',
      method: 'get',
      path: '/openterminal/files/read',
      scope: 'files',
      summary: 'Read a text file',
      description: 'Returns the text of a file, or a range of its lines.',
      query: z.object({ path, start_line: line, end_line: line }),
    },
    async ({ c, tenant, query }) => {
      const { text } = await read(await homes.find(c, tenant), query.path);
      const lines = text.match(/[^\n]*\n|[^\n]+/g) ?? [];
      const content = lines.slice((query.start_line ?? 1) - 1, query.end_line).join('');
      return c.json({ path: toAbsolute(query.path), content, total_lines: lines.length });
    },
  );

  add(
    {
      name: 'display_file',
      method: 'get',
      path: '/openterminal/files/display',
      scope: 'files',
      summary: 'Show a file to the user',
      description: 'Opens a file in the viewer of the user. It does not return the contents.',
      query: z.object({ path }),
    },
    async ({ c, tenant, query }) => {
      const stat = async () => await files.stat(await homes.find(c, tenant), toBoxPath(query.path));
      const head = await stat().catch((error: unknown) => {
        if (!hasCode(error, 'not_found')) throw error;
      });
      return c.json({ path: toAbsolute(query.path), exists: head !== undefined && head.kind !== 'folder' });
    },
  );

  add(
    {
      name: 'write_file',
      method: 'post',
      path: '/openterminal/files/write',
      scope: 'files',
      summary: 'Write a text file',
      description: 'Writes text to a file, which replaces an existing one. Missing folders are created.',
      body: z.object({ path, content: codeSchema.meta({ description: 'The text.' }) }),
      bounds: largeJson,
    },
    async ({ c, tenant, body }) => c.json(await write(await homes.of(c, tenant), body.path, body.content)),
  );

  add(
    {
      name: 'replace_file_content',
      method: 'post',
      path: '/openterminal/files/replace',
      scope: 'files',
      summary: 'Replace text in a file',
      description: 'Finds exact texts in a file and replaces them, one after the other.',
      body: z.object({ path, replacements: z.array(replacementSchema).min(1).max(256) }),
      bounds: largeJson,
    },
    async ({ c, tenant, body }) => {
      const ref = await homes.find(c, tenant);
      const { text, etag } = await read(ref, body.path);
      const changed = body.replacements.reduce(replaced, text);
      return c.json(await write(ref, body.path, changed, etag));
    },
  );
};

const replaced = (
  text: string,
  { target, replacement, allow_multiple }: z.output<typeof replacementSchema>,
): string => {
  const parts = text.split(target);
  const name = target.slice(0, 50);
  if (parts.length === 1) throw new CodeBoxError('invalid_request', `The target was not found: ${name}`);
  if (parts.length > 2 && !allow_multiple)
    throw new CodeBoxError('invalid_request', `The target occurs ${parts.length - 1} times: ${name}`);
  return parts.join(replacement);
};
