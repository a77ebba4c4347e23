import { z } from 'zod';
import { fetchUrlSchema } from '../values/fetch-url.ts';
import { pageSchema, queryInteger } from '../values/page.ts';
import { foreignText, toPlain, wellFormedText } from '../values/text.ts';

const pathFault = (path: string): string | undefined => {
  if (path === '') return 'must not be empty';
  if (path.includes('\0')) return 'must not contain NUL';
  if (new TextEncoder().encode(path).length > 4096) return 'must be at most 4096 bytes';
  if (path.startsWith('/')) return 'must be relative to /mnt/data, so without a leading /';
  const segments = path.split('/');
  if (segments.some((segment) => segment === '..' || segment === '.')) return 'must not contain . or .. segments';
  if (segments.some((segment) => segment === '')) return 'must not contain empty segments';
  return undefined;
};

/**
 * A path below `/mnt/data`, the working folder of a box: relative, separated by `/`, without `.` and `..`, at most 4096
 * bytes.
 */
export const boxPathSchema = z.string().superRefine((path, ctx) => {
  const fault = path.isWellFormed() ? pathFault(path) : 'must not have lone surrogates';
  if (fault) ctx.addIssue({ code: 'custom', message: fault });
});

/** The same in a URL, where it may contain bytes that are not UTF-8: see `decodePath`. */
export const urlPathSchema = z.string().superRefine((path, ctx) => {
  const fault = pathFault(path);
  if (fault) ctx.addIssue({ code: 'custom', message: fault });
});

const isNested = (path: string): boolean => /^mnt\/data(\/|$)/.test(path);
const nestedFault =
  'must be relative to /mnt/data, so without mnt/data at its beginning: it would be mnt/data/mnt/data';

/**
 * The path of a new file. A path that would create a second `mnt/data` below `/mnt/data` is refused as a mistake. An
 * existing file with such a path can still be read and removed.
 */
export const newPathSchema = boxPathSchema.refine((path) => !isNested(path), nestedFault);

/** The same in a URL. */
export const newUrlPathSchema = urlPathSchema.refine((path) => !isNested(path), nestedFault);

const base64Text = z.base64();

/** A file given inside a JSON body: as text (UTF-8), as base64, or as a URL that the box fetches it from. */
export const inlineFileSchema = z
  .strictObject({
    path: newPathSchema,
    text: wellFormedText().optional(),
    base64: base64Text.optional(),
    url: fetchUrlSchema
      .optional()
      .meta({ description: 'Downloaded from inside the box, under its network policy, before the box is ready.' }),
  })
  .refine(
    (file) => [file.text, file.base64, file.url].filter((given) => given !== undefined).length === 1,
    'must have either text, base64 or url',
  )
  .meta({ id: 'InlineFile' });

export type InlineFile = z.infer<typeof inlineFileSchema>;

/** The URL form of a file's path whose name is not UTF-8. */
export const encodedPathSchema = z
  .string()
  .max(3 * 4096)
  .meta({
    description:
      'Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.',
  });

/** One entry of a folder, or the result of an upload. */
export const fileEntrySchema = z
  .object({
    name: z.string(),
    path: z.string().meta({ description: 'Relative to /mnt/data.' }),
    encodedPath: encodedPathSchema.optional(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    sizeBytes: z.int().nonnegative(),
    modifiedAt: z.iso.datetime(),
    mode: z.int().min(0).max(0o7777).optional().meta({ description: 'The permission bits, as a number.' }),
    target: z.string().optional().meta({ description: 'Where a symbolic link leads, as an absolute path.' }),
    metadata: z
      .record(foreignText(256), foreignText(4096))
      .optional()
      .meta({ description: 'What a client of the dialect e2b has noted about the file.' }),
    etag: z.string().optional(),
  })
  .meta({ id: 'FileEntry' });

export type FileEntry = z.infer<typeof fileEntrySchema>;

/** A recursive listing does not go deeper than this. */
export const maxFolderDepth = 64;

/** Query of a folder's listing: the folder itself, or everything below it, each folder before its contents. */
export const folderQuerySchema = z.strictObject({
  limit: queryInteger().min(1).max(1000).optional(),
  cursor: z.string().max(8192).optional(),
  recursive: z.enum(['true', 'false']).optional().meta({ description: 'The same as the maximum depth.' }),
  depth: queryInteger()
    .min(1)
    .max(maxFolderDepth)
    .optional()
    .meta({ description: 'How many levels to list. Default 1.' }),
});

/** One page of a folder. */
export const folderSchema = pageSchema('Folder', fileEntrySchema);

const maxChanged = 1000;
const maxPath = 4096;

/**
 * Keeps the first 1000 paths in total, as text that PostgreSQL can hold; `complete` becomes false when paths are
 * dropped.
 */
const boundChanged = <
  T extends { created: string[]; modified: string[]; deleted: string[]; complete?: boolean | undefined },
>(
  files: T,
): T => {
  let room = maxChanged;
  const bound = (paths: string[]): string[] => {
    const kept = paths.filter((path) => path.length <= maxPath).slice(0, room);
    room -= kept.length;
    return kept.map(toPlain);
  };
  const kept = { created: bound(files.created), modified: bound(files.modified), deleted: bound(files.deleted) };
  const named = (lists: typeof kept) => lists.created.length + lists.modified.length + lists.deleted.length;
  return { ...files, ...kept, ...(named(kept) < named(files) && { complete: false }) };
};

/**
 * The files below `/mnt/data` that a run created, modified and deleted: at most 1000 paths. `complete` is false when
 * there were more, or too many to compare.
 */
export const changedFilesSchema = z
  .object({
    created: z.array(z.string()),
    modified: z.array(z.string()),
    deleted: z.array(z.string()),
    complete: z.boolean().optional(),
  })
  .overwrite(boundChanged)
  .meta({ id: 'ChangedFiles' });

export type ChangedFiles = z.infer<typeof changedFilesSchema>;
