import { readdir } from 'node:fs/promises';

/** Lists the names in a folder that end with `suffix`, without the suffix and without hidden files. */
export const listNames = async (folder: string, suffix = ''): Promise<string[]> =>
  (await readdir(folder))
    .filter((name) => !name.startsWith('.') && name.endsWith(suffix))
    .map((name) => name.slice(0, name.length - suffix.length));
