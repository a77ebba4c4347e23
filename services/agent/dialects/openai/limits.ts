import { z } from 'zod';

/** OpenAI's own limits. */
const maxEntries = 16;
export const maxTools = 128;
/** Files that a new container begins with. */
export const maxFileIds = 50;
/** Outputs of one call of the code interpreter. */
export const maxOutputs = 1000;

/** Checked before the values: otherwise each of thousands of wrong values would be reported as a fault. */
export const metadataSchema = z
  .record(z.string(), z.unknown())
  .refine((given) => Object.keys(given).length <= maxEntries, {
    abort: true,
    error: `must have at most ${maxEntries} entries`,
  })
  .pipe(z.record(z.string(), z.string()));
