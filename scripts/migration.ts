import { join } from 'node:path';
import { projectFolder } from './project.ts';
import { runShown } from './steps.ts';

// Writes a migration from the difference between store/schema.ts and the last one: `npm run migration -- --name nouns`.
const kit = join(projectFolder, 'node_modules/drizzle-kit/bin.cjs');
const signal = new AbortController().signal;
process.exitCode = await runShown([process.execPath, kit, 'generate', ...process.argv.slice(2)], { signal });
