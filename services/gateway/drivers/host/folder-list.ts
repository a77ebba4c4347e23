import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** What lies in a folder, hidden files left out: the name without `suffix` (only names that have it), and when it was made. */
export const listByAge = async (folder: string, suffix = ''): Promise<Map<string, Date>> => {
  const found = new Map<string, Date>();
  for (const name of await readdir(folder)) {
    if (name.startsWith('.') || !name.endsWith(suffix)) continue;
    try {
      found.set(name.slice(0, name.length - suffix.length), (await stat(join(folder, name))).birthtime);
    } catch {
      // Removed since the folder was read.
    }
  }
  return found;
};
