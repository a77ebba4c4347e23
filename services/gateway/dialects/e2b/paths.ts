import { posix } from 'node:path';
import { CodeBoxError, urlPathSchema } from '#contract';

/** The home folder of E2B's sandboxes, which is a link to the working folder of a box. */
export const home = '/home/user';
const folders = [home, '/mnt/data'];

/**
 * Converts a path of a sandbox to one of its box: relative to the working folder, which is '', or absolute for a place elsewhere. Relative
 * paths begin at the home folder. Throws `invalid_request` for text that is no path.
 */
export const toBoxPath = (path: string): string => {
  const whole = posix.resolve(home, path.replace(/^~(?=\/|$)/, home));
  const folder = folders.find((one) => whole === one || whole.startsWith(`${one}/`));
  const relative = whole.slice(folder === undefined ? 1 : folder.length + 1);
  const parsed = urlPathSchema.safeParse(relative === '' ? '-' : relative);
  if (parsed.success) return folder === undefined ? whole : relative;
  throw new CodeBoxError('invalid_request', `The path ${parsed.error.issues[0]?.message ?? 'is invalid'}.`);
};

/**
 * Returns variables for a process in this folder, for which the link to the working folder is its home. Its packages stay where code finds
 * them.
 */
export const environmentIn = (cwd: string | null | undefined) => ({
  HOME: home,
  PWD: toSandboxPath(toBoxPath(cwd ?? '')),
  PYTHONUSERBASE: '/mnt/home/.local',
});

/** Converts a path of a box to one of its sandbox. */
export const toSandboxPath = (path: string): string => {
  if (path.startsWith('/')) return path.replace(/^\/mnt\/data(?=\/|$)/, home);
  return path === '' ? home : `${home}/${path}`;
};
