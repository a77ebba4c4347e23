import { stripVTControlCharacters } from 'node:util';
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { type CommandEvent, type ExecutionEvent, runStatuses } from '#contract';
import { linkTo, toUri } from './resources.ts';

export type RunEvent = ExecutionEvent | CommandEvent;

const maxLinks = 50;
const maxFiles = 100;
const maxImages = 16;
/** The longest picture, in characters of base64. The Python client accepts events of a stream of up to 1 MiB. */
export const maxImageLength = 700_000;
const maxResultBytes = 1_000_000;
/** How many characters of the beginning and of the end of a text are kept. */
const [maxHead, maxTail] = [20_000, 10_000];
const imageTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** A picture in base64, which Jupyter may break into lines. */
const pictureSchema = z
  .string()
  .transform((text) => text.replaceAll('\n', ''))
  .pipe(z.base64());

const fileSchema = z.object({
  path: z.string().describe('Relative to /mnt/data.'),
  change: z.enum(['created', 'modified', 'deleted']),
  uri: z.string().optional().describe('Read it with resources/read.'),
});

/** Fields that every run reports. */
const runFields = {
  status: z.enum(runStatuses).describe('ok, or why the run failed or was ended.'),
  cause: z.string().optional().describe('Why the run was ended.'),
  stdout: z.string(),
  stderr: z.string(),
  files: z.array(fileSchema).describe('Files that the run changed.'),
  truncated: z.boolean().describe('Whether output or files were left out.'),
  durationMs: z.number(),
};

/** Fields that a run of code reports. */
export const codeFields = {
  ...runFields,
  text: z.string().optional().describe('The value of the last expression, if it has one.'),
  error: z.object({ name: z.string(), value: z.string(), traceback: z.string() }).nullable(),
};

/** Fields that a command reports. */
export const commandFields = { ...runFields, exitCode: z.int().nullable() };

/** A text of which the beginning and the end are kept. */
const createExcerpt = () => {
  let [head, tail, dropped] = ['', '', 0];
  return {
    add(text: string): void {
      const room = Math.max(0, maxHead - head.length);
      head += text.slice(0, room);
      const rest = tail + text.slice(room);
      dropped += Math.max(0, rest.length - maxTail);
      tail = rest.slice(-maxTail);
    },
    isWhole: () => dropped === 0,
    // A cut may have split a character.
    text: () =>
      (dropped === 0 ? head + tail : `${head}\n[${dropped} characters were left out]\n${tail}`).toWellFormed(),
  };
};

/** Collects the events of a run into the result of a tool. */
export const createOutcome = (kind: 'code' | 'command') => {
  const [stdout, stderr, shown] = [createExcerpt(), createExcerpt(), createExcerpt()];
  const images: { data: string; mimeType: string }[] = [];
  let [imageLength, leftOut] = [0, 0];
  let isTruncated = false;
  let result: string | undefined;
  let error: { name: string; value: string; traceback: string } | null = null;
  let hint: string | undefined;
  let done: Extract<RunEvent, { type: 'done' }> | undefined;

  const display = (mime: Record<string, unknown>) => {
    const mimeType = imageTypes.find((type) => pictureSchema.safeParse(mime[type]).success);
    const text = mime['text/plain'];
    if (mimeType === undefined) {
      if (typeof text === 'string') shown.add(`${text}\n`);
      return;
    }
    const data = pictureSchema.parse(mime[mimeType]);
    if (images.length >= maxImages || imageLength + data.length > maxImageLength) {
      leftOut += 1;
      return;
    }
    imageLength += data.length;
    images.push({ data, mimeType });
  };

  const toFiles = () => {
    const { created = [], modified = [], deleted = [], complete = true } = done?.files ?? {};
    if (!complete) isTruncated = true;
    const all = [
      ...created.map((path) => ({ path, change: 'created' as const, uri: toUri(path) })),
      ...modified.map((path) => ({ path, change: 'modified' as const, uri: toUri(path) })),
      ...deleted.map((path) => ({ path, change: 'deleted' as const })),
    ];
    if (all.length > maxFiles) isTruncated = true;
    return all.slice(0, maxFiles);
  };

  return {
    add(event: RunEvent): void {
      if (event.type === 'stdout') stdout.add(event.text);
      else if (event.type === 'stderr') stderr.add(event.text);
      else if (event.type === 'truncated') isTruncated = true;
      else if (event.type === 'done') done = event;
      else if (event.type === 'input_request') hint = 'input() is not supported: nobody can answer it.';
      else if (event.type === 'error') {
        const traceback = stripVTControlCharacters(event.traceback.join('\n')).slice(-maxTail).toWellFormed();
        error ??= { name: event.name, value: event.value.slice(0, maxTail).toWellFormed(), traceback };
        hint ??= event.hint?.detail;
      } else if ('mime' in event) {
        const text = event.mime['text/plain'];
        if (event.type === 'result' && typeof text === 'string') {
          result = text.slice(0, maxHead).toWellFormed();
          if (text.length > maxHead) isTruncated = true;
        }
        display(event.mime);
      }
    },

    /** Returns the result once the run has ended. */
    toResult(): CallToolResult {
      if (!done) throw new Error('a run ended without its last event');
      const { status, cause, durationMs } = done;
      const files = toFiles();
      if (![stdout, stderr, shown].every((text) => text.isWhole())) isTruncated = true;
      const links = files.filter(({ change }) => change !== 'deleted').slice(0, maxLinks);
      const parts = [
        stdout.text(),
        stderr.text(),
        shown.text(),
        error?.traceback || (error && `${error.name}: ${error.value}`),
        hint,
        status !== 'ok' && status !== 'error' && `The run ended: ${status}. ${cause?.detail ?? ''}`.trim(),
        'exitCode' in done && done.exitCode ? `The exit code is ${done.exitCode}.` : '',
        files.length > 0 &&
          `Files: ${files
            .slice(0, maxLinks)
            .map(({ path, change }) => `${change} ${path}`)
            .join(', ')}`,
      ].flatMap((part) => (part ? [part.trimEnd()] : []));
      const common = { status, ...(cause && { cause: cause.detail }), stdout: stdout.text(), stderr: stderr.text() };
      const own =
        kind === 'code'
          ? { ...(result !== undefined && { text: result }), error }
          : { exitCode: 'exitCode' in done ? done.exitCode : null };
      const text = { type: 'text' as const, text: parts.join('\n') || '(no output)' };
      const linked = links.map(({ path }) => linkTo(path));
      let room = maxResultBytes - Buffer.byteLength(JSON.stringify([common, own, files, text, linked]));
      const shownImages = images.filter(({ data }) => {
        room -= data.length;
        return room > 0;
      });
      const left = leftOut + images.length - shownImages.length;
      if (left > 0) text.text += `\n${left} pictures were too large: save them to files to read them.`;
      const content: ContentBlock[] = [
        text,
        ...shownImages.map((image) => ({ type: 'image' as const, ...image })),
        ...linked,
      ];
      const structuredContent = { ...common, ...own, files, truncated: isTruncated || left > 0, durationMs };
      return { content, structuredContent, isError: status !== 'ok' };
    },
  };
};
