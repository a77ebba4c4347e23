import { createHash, randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { hostCertificates } from '../host/host-certificates.ts';

/** Files of the host that take the place of files of the image. */
export interface SystemFiles {
  /** All certificates that a box trusts; undefined when those of the image are enough. */
  certificates: string | undefined;
}

/**
 * Writes them below `folder`, from where the daemon mounts them. A file is named after what it holds, so that boxes which are
 * there already keep theirs. `certificates` are PEM texts to trust beside the public ones.
 */
export const writeSystemFiles = async (folder: string, certificates: readonly string[]): Promise<SystemFiles> => {
  await mkdir(folder, { recursive: true });
  const write = async (text: string): Promise<string> => {
    const path = `${folder}/${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    // Another gateway may be writing the same just now.
    const fresh = `${path}.${randomUUID()}`;
    await writeFile(fresh, text, { mode: 0o644 });
    await rename(fresh, path);
    return path;
  };
  return {
    certificates:
      certificates.length === 0 ? undefined : await write([await hostCertificates(), ...certificates].join('\n')),
  };
};
