import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { hostCertificates } from '../host-certificates.ts';

/** Made anew for boxes, so that nothing of this host's configuration shows. */
const files: Record<string, string> = {
  passwd: '',
  group: '',
  hosts: '127.0.0.1 localhost box\n::1 localhost\n',
  hostname: 'box\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  'resolv.conf': '',
  'os-release': 'NAME="CodeBox"\nID=codebox\nPRETTY_NAME="CodeBox"\n',
};

/** Taken from the host as they are: without them linked programs, commands with alternatives and fonts do not work. */
const copied = ['ld.so.cache', 'alternatives', 'fonts', 'mime.types', 'protocols', 'services'];

/**
 * Makes the `/etc` of boxes in `folder`, anew at each start because the host's libraries change. `certificates` are PEM texts
 * to trust beside the host's.
 */
export const makeSystemFiles = async (folder: string, certificates: readonly string[] = []): Promise<void> => {
  await rm(folder, { recursive: true, force: true });
  await mkdir(`${folder}/ssl/certs`, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(`${folder}/${name}`, text);
  for (const name of copied) {
    // A host that lacks one of them can do without.
    await cp(`/etc/${name}`, `${folder}/${name}`, { recursive: true, verbatimSymlinks: true }).catch(() => undefined);
  }
  await symlink('/usr/share/zoneinfo/UTC', `${folder}/localtime`);
  const bundle = [await hostCertificates(), ...certificates].join('\n');
  await writeFile(`${folder}/ssl/certs/ca-certificates.crt`, bundle);
};
