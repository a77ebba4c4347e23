import { readdir } from 'node:fs/promises';

/** What lies in a folder, hidden files left out: the names without `suffix`, and only those that have it. */
export const listNames = async (folder: string, suffix = ''): Promise<string[]> =>
  (await readdir(folder))
    .filter((name) => !name.startsWith('.') && name.endsWith(suffix))
    .map((name) => name.slice(0, name.length - suffix.length));
