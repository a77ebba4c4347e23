import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pack } from 'tar-stream';

/** A build context: the files that the image is built from, as a tar, and a hash of their content. */
export interface BuildContext {
  hash: string;
  /** Returns a new stream of the tar. */
  tar(): NodeJS.ReadableStream;
}

interface ContextFile {
  path: string;
  executable: boolean;
  content: Buffer;
}

/** Names that are never part of the image, in any folder. The seccomp profile belongs to the container, not the image. */
const ignored =
  /^(__pycache__|\.pytest_cache|\.ruff_cache|\.dockerignore|tests|requirements-dev\.txt|seccomp\.json|.*\.(pyc|egg-info))$/;

/**
 * Reads the files below `folder`. Each of `certificates` (PEM) is added as a file `ca/*.crt`, which the image then trusts. Times and owners
 * are left out, so that the same content has the same hash on every machine.
 */
export const readBuildContext = async (
  folder: string,
  { certificates = [], buildArgs = {} }: { certificates?: readonly string[]; buildArgs?: Record<string, string> },
): Promise<BuildContext> => {
  const files = await readFiles(folder, '');
  for (const pem of certificates) {
    const name = createHash('sha256').update(pem).digest('hex').slice(0, 16);
    files.push({ path: `ca/${name}.crt`, executable: false, content: Buffer.from(`${pem}\n`) });
  }
  files.sort((one, other) => (one.path < other.path ? -1 : 1));
  const hash = createHash('sha256').update(JSON.stringify(buildArgs));
  for (const { path, executable, content } of files) {
    hash.update(`${path}\0${executable}\0${content.length}\0`).update(content);
  }
  return {
    hash: hash.digest('hex').slice(0, 16),
    tar: () => {
      const tar = pack();
      for (const { path, executable, content } of files) {
        tar.entry({ name: path, mode: executable ? 0o755 : 0o644, mtime: new Date(0) }, content);
      }
      tar.finalize();
      return Readable.from(tar);
    },
  };
};

const readFiles = async (root: string, below: string): Promise<ContextFile[]> => {
  const files: ContextFile[] = [];
  for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
    if (ignored.test(entry.name)) continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) files.push(...(await readFiles(root, path)));
    else if (entry.isFile()) {
      const content = await readFile(join(root, path));
      files.push({ path, executable: content.subarray(0, 2).toString() === '#!', content });
    }
  }
  return files;
};
