import { queryInteger } from '../values/page.ts';

/** A TCP port on which a program inside a box listens. */
export const portSchema = queryInteger().min(1).max(65_535);
