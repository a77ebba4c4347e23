import { z } from 'zod';

/** As OpenAI has them. */
const maxEntries = 16;
export const maxTools = 128;
/** Of one call of the code interpreter. */
export const maxOutputs = 1000;

/** Counted before any of it is looked at: of thousands of wrong values each would be a fault of its own. */
export const metadataSchema = z
  .record(z.string(), z.unknown())
  .refine((given) => Object.keys(given).length <= maxEntries, {
    abort: true,
    error: `must have at most ${maxEntries} entries`,
  })
  .pipe(z.record(z.string(), z.string()));
