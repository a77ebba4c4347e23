import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readCertificates, splitCertificates } from '../services/gateway/drivers/host/host-certificates.ts';

/** Where Debian and Fedora keep the certificates that an administrator added. */
const additions = ['/usr/local/share/ca-certificates', '/etc/pki/ca-trust/source/anchors'];

/**
 * Reads the certificates (one PEM block each) that builds and boxes must trust beside the public ones: those of the file `bundle`,
 * or else the ones that this machine's administrator added, as a network with a re-signing proxy needs. Throws if `bundle` cannot
 * be read or contains no certificate.
 */
export const extraCertificates = async (bundle: string | undefined): Promise<string[]> => {
  if (bundle !== undefined && bundle !== '') return await readCertificates(bundle);
  const found: string[] = [];
  for (const folder of additions) {
    // Most machines have no such folder.
    const names = await readdir(folder).catch(() => []);
    for (const name of names.sort()) {
      if (/\.(crt|pem)$/.test(name)) found.push(...splitCertificates(await readFile(join(folder, name), 'utf8')));
    }
  }
  return [...new Set(found)];
};
