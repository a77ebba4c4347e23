import { readFile } from 'node:fs/promises';
import { ConfigurationError } from '../../../configuration-error.ts';

const bundles = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/cert.pem'];

/** The host's certificates in one PEM text; empty when it has none. */
export const hostCertificates = async (): Promise<string> => {
  for (const path of bundles) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    if (text !== undefined) return text;
  }
  return '';
};

/** The single certificates of a PEM bundle, without comments or duplicates. */
export const splitCertificates = (bundle: string): string[] => [
  ...new Set(bundle.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? []),
];

/** The certificates of a PEM file. Throws a ConfigurationError that names it when it cannot be read or holds none. */
export const readCertificates = async (file: string): Promise<string[]> => {
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new ConfigurationError(`CODEBOX_CA_BUNDLE: it cannot be read: ${error.message}`);
  });
  const found = splitCertificates(text);
  if (found.length === 0) throw new ConfigurationError(`CODEBOX_CA_BUNDLE: there is no certificate in ${file}.`);
  return found;
};
