import type { z } from 'zod';
import { frameIdSchema, type InputFault } from '#contract';
import { jsonExcess, largeJson } from '../../json/json-bounds.ts';
import { toFaults } from '../faults/fault.ts';
import { wording } from '../faults/wording.ts';

export interface BadFrame {
  faults: InputFault[];
  id: string | null;
}

/** Parses a text frame by its schema; returns its faults and its id, if any, when it is invalid. */
export const readFrame = <T>(schema: z.ZodType<T>, text: Buffer): { value: T } | BadFrame => {
  const excess = jsonExcess(text, largeJson);
  if (excess !== undefined) return { faults: [{ pointer: '', detail: excess }], id: null };
  let value: unknown;
  try {
    value = JSON.parse(text.toString('utf8'));
  } catch {
    return { faults: [{ pointer: '', detail: 'is not JSON' }], id: null };
  }
  const parsed = schema.safeParse(value, { error: wording });
  if (parsed.success) return { value: parsed.data };
  const id = frameIdSchema.safeParse((value as { id?: unknown } | null)?.id);
  return { faults: toFaults(schema, parsed.error.issues, ''), id: id.data ?? null };
};
