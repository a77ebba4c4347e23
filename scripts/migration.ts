import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { projectFolder } from './project.ts';
import { runShown } from './steps.ts';

// Writes a migration from the difference between a service's store/schema*.ts and its last migration:
// `npm run migration -- gateway --name nouns`.
const [service = '', ...options] = process.argv.slice(2);
if (service !== 'gateway' && service !== 'agent') {
  process.stderr.write('Usage: npm run migration -- gateway|agent --name nouns\n');
  process.exit(1);
}
const kit = join(projectFolder, 'node_modules/drizzle-kit/bin.cjs');
const store = `./services/${service}/store`;
const place = ['--dialect', 'postgresql', '--schema', `${store}/schema*.ts`, '--out', `${store}/migrations`];
const signal = new AbortController().signal;
process.exitCode = await runShown([process.execPath, kit, 'generate', ...place, ...options], { signal });

// drizzle-kit compares with the last snapshot only, so older ones are deleted.
const meta = join(projectFolder, store, 'migrations/meta');
const snapshots = (await readdir(meta)).filter((name) => name.endsWith('_snapshot.json')).sort();
for (const old of snapshots.slice(0, -1)) await rm(join(meta, old));
