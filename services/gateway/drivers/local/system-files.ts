import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { hostCertificates } from '../host/host-certificates.ts';

/** Files that are written for boxes, so that they do not reveal the configuration of this host. */
const files: Record<string, string> = {
  passwd: '',
  group: '',
  hosts: '',
  hostname: 'box\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  'os-release': 'NAME="CodeBox"\nID=codebox\nPRETTY_NAME="CodeBox"\n',
};

/** Files that are copied from the host: dynamically linked programs and fonts need them. */
const copied = ['ld.so.cache', 'fonts', 'mime.types', 'protocols', 'services'];

/**
 * Creates the `/etc` of boxes below `folder` and returns its path. It is created at each start because the host's libraries change, and named
 * after the hash of its content because running boxes still have theirs mounted. `certificates` are PEM texts to trust in addition to the
 * host's. Boxes without a network have the name servers too, because they may get one; until then, names fail at once.
 */
export const makeSystemFiles = async (
  folder: string,
  certificates: readonly string[],
  nameServers: readonly string[],
): Promise<string> => {
  const fresh = `${folder}/new-${randomUUID()}`;
  for (const name of ['ssl/certs', 'alternatives']) await mkdir(`${fresh}/${name}`, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(`${fresh}/${name}`, text);
  for (const name of copied) {
    // A host that lacks one of them does not need it.
    await cp(`/etc/${name}`, `${fresh}/${name}`, { recursive: true, verbatimSymlinks: true }).catch(() => undefined);
  }
  await writeFile(`${fresh}/resolv.conf`, nameServers.map((server) => `nameserver ${server}\n`).join(''));
  await symlink('/usr/share/zoneinfo/UTC', `${fresh}/localtime`);
  const bundle = [await hostCertificates(), ...certificates].join('\n');
  await writeFile(`${fresh}/ssl/certs/ca-certificates.crt`, bundle);
  const path = `${folder}/${await hashOf(fresh)}`;
  // Another gateway may have created it meanwhile, with the same content.
  if (!existsSync(path)) await rename(fresh, path).catch(() => undefined);
  await rm(fresh, { recursive: true, force: true });
  return path;
};

/** Hashes the names and contents of everything below a folder. */
const hashOf = async (folder: string): Promise<string> => {
  const hash = createHash('sha256');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => ({ entry, path: `${entry.parentPath}/${entry.name}` }));
  for (const { entry, path } of paths.sort((one, other) => (one.path < other.path ? -1 : 1))) {
    hash.update(`${path.slice(folder.length)}\0`);
    if (entry.isFile()) hash.update(await readFile(path));
    else if (entry.isSymbolicLink()) hash.update(await readlink(path));
  }
  return hash.digest('hex').slice(0, 16);
};
