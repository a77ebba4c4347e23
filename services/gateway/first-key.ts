import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../postgres/id.ts';
import type { Config } from './config.ts';
import { hashOf, keyId, makeKey, type NewKey } from './http/admission/auth.ts';
import type { KeyStore } from './store/tenants/keys.ts';

/**
 * In an empty database, creates a first tenant with the configured key or, without one, with a new key that is written to
 * `<data folder>/dev-key`, mode 0600. Returns the path of that file if it exists, otherwise undefined.
 */
export const ensureFirstKey = async (
  keys: KeyStore,
  { dataDir, firstKey }: Pick<Config, 'dataDir' | 'firstKey'>,
): Promise<string | undefined> => {
  const file = join(dataDir, 'dev-key');
  if (!(await keys.hasTenants())) {
    const { key, id, hash } = firstKey === undefined ? makeKey() : givenKey(firstKey);
    // The file is written first: a key that nobody has would be worse than a file whose key the next attempt replaces.
    await keys.addFirstTenant({ id: newId('ten'), name: 'dev' }, { id, hash, name: 'dev-key' }, async () => {
      if (firstKey !== undefined) return;
      await mkdir(dataDir, { recursive: true });
      await writeFile(file, `${key}\n`, { mode: 0o600 });
    });
  }
  return existsSync(file) ? file : undefined;
};

const givenKey = (key: string): NewKey => ({ key, id: keyId(key) ?? '', hash: hashOf(key) });
