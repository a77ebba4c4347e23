import { join } from 'node:path';
import { projectFolder } from './project.ts';
import { runShown } from './steps.ts';

// Writes a migration from the difference between store/schema.ts of a service and the last one:
// `npm run migration -- gateway --name nouns`.
const [service = '', ...options] = process.argv.slice(2);
if (service !== 'gateway' && service !== 'agent') {
  process.stderr.write('Usage: npm run migration -- gateway|agent --name nouns\n');
  process.exit(1);
}
const kit = join(projectFolder, 'node_modules/drizzle-kit/bin.cjs');
const store = `./services/${service}/store`;
const place = ['--dialect', 'postgresql', '--schema', `${store}/schema.ts`, '--out', `${store}/migrations`];
const signal = new AbortController().signal;
process.exitCode = await runShown([process.execPath, kit, 'generate', ...place, ...options], { signal });
