import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../postgres/id.ts';
import { makeKey } from './http/admission/auth.ts';
import type { KeyStore } from './store/tenants/keys.ts';

/**
 * In an empty database: makes a first tenant with a key and writes the key to `<data folder>/dev-key`, mode 0600.
 * Answers the path of that file whenever it is there, undefined where there never was one.
 */
export const ensureDevKey = async (keys: KeyStore, dataDir: string): Promise<string | undefined> => {
  const file = join(dataDir, 'dev-key');
  if (!(await keys.hasTenants())) {
    const { key, id, hash } = makeKey();
    // The file first: a key that nobody knows would be worse than a file whose key is replaced at the next try.
    await keys.addFirstTenant({ id: newId('ten'), name: 'dev' }, { id, hash, name: 'dev-key' }, async () => {
      await mkdir(dataDir, { recursive: true });
      await writeFile(file, `${key}\n`, { mode: 0o600 });
    });
  }
  return existsSync(file) ? file : undefined;
};
