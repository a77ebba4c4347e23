import { z } from 'zod';

/** A TCP port on which a program inside a box listens. */
export const portSchema = z.coerce.number().int().min(1).max(65_535);
