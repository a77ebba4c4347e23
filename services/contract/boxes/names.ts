import { z } from 'zod';
import { plainText } from '../values/text.ts';

export const boxUserSchema = plainText().min(1).max(256);

export const boxNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be 1 to 64 letters, digits, ".", "_" or "-"');

/** A box that a user gave a name. */
export interface BoxName {
  user: string;
  name: string;
}

/**
 * Splits `user:name`, which stands for the id of a box in every path; returns undefined for other text. A user may have
 * colons and a name has none, so the last colon separates them. No id has a colon.
 */
export const parseBoxName = (text: string): BoxName | undefined => {
  const at = text.lastIndexOf(':');
  const [user, name] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
  if (at < 0 || !boxUserSchema.safeParse(user).success || !boxNameSchema.safeParse(name).success) return undefined;
  return { user, name };
};
