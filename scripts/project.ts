import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root folder of this checkout. */
export const projectFolder = dirname(dirname(fileURLToPath(import.meta.url)));

/** Images and environments of tests are kept here between runs. Other users must have access, because boxes run as other users. */
export const testFolder = process.getuid?.() === 0 ? '/var/lib/codebox-test' : join(projectFolder, '.codebox/test');
