import { createHash, randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { hostCertificates } from '../../host/host-certificates.ts';

/** Files of the host that replace files of the image. */
export interface SystemFiles {
  /** The file with all certificates that a box trusts; undefined when those of the image suffice. */
  certificates: string | undefined;
}

/**
 * Writes the files below `folder`, from where the daemon mounts them. A file is named after the hash of its content, so that existing boxes
 * keep theirs. `certificates` are PEM texts to trust in addition to the public ones.
 */
export const writeSystemFiles = async (folder: string, certificates: readonly string[]): Promise<SystemFiles> => {
  await mkdir(folder, { recursive: true });
  const write = async (text: string): Promise<string> => {
    const path = `${folder}/${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    // Renamed into place, because another gateway may be writing the same file.
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
