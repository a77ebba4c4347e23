import { Readable } from 'node:stream';
import type { ContentBlock } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { boxPathSchema, newPathSchema, wellFormedText } from '#contract';
import { workingFolder } from '../../boxes/life/working-folder.ts';
import type { RouteParts } from '../../http/app.ts';
import { maxImageLength } from './outcome.ts';
import { linkTo, readFile } from './resources.ts';
import type { AddTool, Call } from './tool.ts';

const maxEntries = 200;
const maxDepth = 16;
/** A longer text is cut: it would fill the context of a model. */
const maxText = 60_000;
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Models write paths in the working folder also as absolute ones. */
const toRelative = (path: string): string =>
  path === workingFolder ? '' : path.replace(new RegExp(`^(?:${workingFolder}/|\\./)+`), '').replace(/^\.$|\/$/, '');
const pathText = z.string().max(4200).describe('Relative to /mnt/data.').transform(toRelative);
const path = pathText.pipe(boxPathSchema);

const input = {
  list: z.object({
    path: pathText.pipe(z.literal('').or(boxPathSchema)).default(''),
    depth: z.int().min(1).max(maxDepth).default(1).describe('How many levels to list.'),
    cursor: z.string().max(8192).optional().describe('The nextCursor of the page before.'),
  }),
  read: z.object({ path }),
  write: z
    .object({
      path: pathText.pipe(newPathSchema),
      text: wellFormedText().optional(),
      base64: z.base64().optional().describe('In place of text.'),
    })
    .refine((file) => (file.text === undefined) !== (file.base64 === undefined), 'must have either text or base64'),
  delete: z.object({ path }),
};
const output = {
  list: z.object({
    entries: z.array(z.object({ path: z.string(), type: z.string(), sizeBytes: z.number(), modifiedAt: z.string() })),
    nextCursor: z.string().optional().describe('For the next page, if there is one.'),
  }),
  read: z.object({
    path: z.string(),
    mimeType: z.string(),
    sizeBytes: z.number(),
    text: z.string().optional(),
    truncated: z.boolean().describe('Whether only the beginning of the text is returned.'),
  }),
  write: z.object({ path: z.string(), sizeBytes: z.number(), created: z.boolean() }),
  delete: z.object({ path: z.string() }),
};

/** The tools for files. */
export const addFileTools = (addTool: AddTool, call: Call, { files }: RouteParts): void => {
  const scope = 'files';
  const reading = { readOnlyHint: true, openWorldHint: false };
  const writing = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false };

  addTool(
    {
      name: 'list_files',
      title: 'List files',
      description: `Lists a folder of the sandbox, at most ${maxEntries} entries per call.`,
      scope,
      input: input.list,
      output: output.list,
      annotations: reading,
    },
    async ({ path: folder, depth, cursor }) => {
      const page = await files.list(await call.open(), folder, { depth, cursor, limit: maxEntries });
      const entries = page.items.map(({ path: at, type, sizeBytes, modifiedAt }) => ({
        path: at,
        type,
        sizeBytes,
        modifiedAt,
      }));
      const lines = entries.map(
        ({ path: at, type, sizeBytes }) => `${at}${type === 'directory' ? '/' : `  ${sizeBytes} bytes`}`,
      );
      const more = page.nextCursor === null ? [] : [`There are more: use the cursor ${page.nextCursor}`];
      const cursors = page.nextCursor !== null && { nextCursor: page.nextCursor };
      const text = [...lines, ...more].join('\n') || '(empty)';
      return { content: [{ type: 'text', text }], structuredContent: { entries, ...cursors } };
    },
  );

  addTool(
    {
      name: 'read_file',
      title: 'Read a file',
      description: 'Returns a text file as text and a picture as an image; another file as a link for resources/read.',
      scope,
      input: input.read,
      output: output.read,
      annotations: reading,
    },
    async ({ path: file }) => {
      const { bytes, text, mimeType } = await readFile(files, await call.open(), file);
      const isCut = text !== undefined && text.length > maxText;
      const shown = text?.slice(0, maxText).toWellFormed();
      const remark = `[The file has ${text?.length} characters. Read the rest with a command such as sed or tail.]`;
      const base64 = pictures.includes(mimeType) ? bytes.toString('base64') : '';
      const content: ContentBlock[] =
        base64 !== '' && base64.length <= maxImageLength
          ? [{ type: 'image', data: base64, mimeType }]
          : shown === undefined
            ? [{ type: 'text', text: `A file of ${bytes.length} bytes that cannot be shown here.` }, linkTo(file)]
            : [{ type: 'text', text: isCut ? `${shown}\n${remark}` : shown }];
      const about = {
        path: file,
        mimeType,
        sizeBytes: bytes.length,
        ...(shown !== undefined && { text: shown }),
        truncated: isCut,
      };
      return { content, structuredContent: about };
    },
  );

  addTool(
    {
      name: 'write_file',
      title: 'Write a file',
      description: 'Creates or replaces a file, with text or with bytes in base64. Folders are created as needed.',
      scope,
      input: input.write,
      output: output.write,
      annotations: writing,
    },
    async ({ path: file, text, base64 }) => {
      const bytes = text === undefined ? Buffer.from(base64 ?? '', 'base64') : Buffer.from(text);
      // As one chunk: an empty one would end the stream early, and an array of bytes would be read one by one.
      const body = Readable.from(bytes.length > 0 ? [bytes] : [], { objectMode: false });
      const { entry, isNew } = await files.put(await call.open(), file, body, { sizeBytes: bytes.length });
      const done = `${isNew ? 'Created' : 'Replaced'} ${entry.path}, ${entry.sizeBytes} bytes.`;
      const structuredContent = { path: entry.path, sizeBytes: entry.sizeBytes, created: isNew };
      return { content: [{ type: 'text', text: done }, linkTo(entry.path)], structuredContent };
    },
  );

  addTool(
    {
      name: 'delete_file',
      title: 'Delete a file',
      description: 'Deletes a file, or a folder with everything in it.',
      scope,
      input: input.delete,
      output: output.delete,
      annotations: writing,
    },
    async ({ path: file }) => {
      await files.remove(await call.open(), file);
      return { content: [{ type: 'text', text: `Deleted ${file}.` }], structuredContent: { path: file } };
    },
  );
};
