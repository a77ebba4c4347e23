import { readFile } from 'node:fs/promises';
import { ConfigurationError } from '../../../configuration-error.ts';

const bundles = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/cert.pem'];

/** Returns the host's certificates in one PEM text; empty when it has none. */
export const hostCertificates = async (): Promise<string> => {
  for (const path of bundles) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    if (text !== undefined) return text;
  }
  return '';
};

/** Splits a PEM bundle into its certificates, without comments and duplicates. */
export const splitCertificates = (bundle: string): string[] => [
  ...new Set(bundle.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? []),
];

/** Reads the certificates of a PEM file. Throws a ConfigurationError when the file cannot be read or contains none. */
export const readCertificates = async (file: string): Promise<string[]> => {
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new ConfigurationError(`CODEBOX_CA_BUNDLE: the file cannot be read: ${error.message}`);
  });
  const found = splitCertificates(text);
  if (found.length === 0) throw new ConfigurationError(`CODEBOX_CA_BUNDLE: ${file} contains no certificate.`);
  return found;
};
