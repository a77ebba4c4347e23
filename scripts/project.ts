import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root folder of this checkout. */
export const projectFolder = dirname(dirname(fileURLToPath(import.meta.url)));
