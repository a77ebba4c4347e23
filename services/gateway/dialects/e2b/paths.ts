import { posix } from 'node:path';
import { CodeBoxError, urlPathSchema } from '#contract';

/** The home folder of E2B's sandboxes, which is a link to the working folder of a box. */
export const home = '/home/user';
const folders = [home, '/mnt/data'];

/**
 * Converts a path of a sandbox to one relative to the working folder of its box, which is ''. Relative paths begin at the home folder.
 * Throws `not_found` for a path elsewhere, since files of a box are only reached in its working folder, and `invalid_request` for text
 * that is no path.
 */
export const toBoxPath = (path: string): string => {
  const whole = posix.resolve(home, path.replace(/^~(?=\/|$)/, home));
  const folder = folders.find((one) => whole === one || whole.startsWith(`${one}/`));
  if (folder === undefined)
    throw new CodeBoxError('not_found', `The path ${path} lies outside ${home}, where the files of a sandbox are.`);
  const relative = whole.slice(folder.length + 1);
  const parsed = urlPathSchema.safeParse(relative === '' ? '-' : relative);
  if (parsed.success) return relative;
  throw new CodeBoxError('invalid_request', `The path ${parsed.error.issues[0]?.message ?? 'is invalid'}.`);
};

/** The same for a folder in which something runs: an absolute path elsewhere is one of the box. */
export const toFolder = (cwd: string): string => {
  try {
    return toBoxPath(cwd);
  } catch (error) {
    if (cwd.startsWith('/')) return cwd;
    throw error;
  }
};

/** Converts a path relative to the working folder to one of a sandbox. */
export const toSandboxPath = (path: string): string => (path === '' ? home : `${home}/${path}`);
