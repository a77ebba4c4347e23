import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

const [ivBytes, tagBytes] = [12, 16];

/**
 * Encrypts and authenticates texts with a secret (AES-256-GCM), as base64url. A text sealed for one `purpose` does not
 * open for another.
 */
export const createVault = (secret: string) => {
  /** Keys by purpose; the code has a fixed number of purposes. */
  const keys = new Map<string, Buffer>();
  const keyFor = (purpose: string): Buffer => {
    const key = keys.get(purpose) ?? createHash('sha256').update(`${purpose}\n${secret}`).digest();
    keys.set(purpose, key);
    return key;
  };

  return {
    close(purpose: string, text: string): string {
      const iv = randomBytes(ivBytes);
      const cipher = createCipheriv('aes-256-gcm', keyFor(purpose), iv);
      return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString(
        'base64url',
      );
    },

    /** Returns the text; undefined when it was not sealed here for this purpose. */
    open(purpose: string, sealed: string): string | undefined {
      const bytes = Buffer.from(sealed, 'base64url');
      if (bytes.length < ivBytes + tagBytes) return undefined;
      try {
        const decipher = createDecipheriv('aes-256-gcm', keyFor(purpose), bytes.subarray(0, ivBytes));
        decipher.setAuthTag(bytes.subarray(-tagBytes));
        return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8');
      } catch {
        return undefined;
      }
    },
  };
};

export type Vault = ReturnType<typeof createVault>;
