const form = /^e2b_((?:[0-9a-f]{2})+)$/;

/** Returns an API key in the form that E2B's clients accept: `e2b_` and hexadecimal digits. */
export const toE2bKey = (key: string): string => `e2b_${Buffer.from(key).toString('hex')}`;

/** Returns the API key that is written in that form; undefined for any other text. */
export const fromE2bKey = (text: string | undefined): string | undefined => {
  const [, digits] = form.exec(text ?? '') ?? [];
  return digits === undefined ? undefined : Buffer.from(digits, 'hex').toString();
};
