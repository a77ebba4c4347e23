import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { projectFolder } from './project.ts';

const sourceFolder = join(projectFolder, 'services/web');
/** Run as a program, because what it builds depends on the NODE_ENV of its process. */
const bundler = join(projectFolder, 'node_modules/vite/bin/vite.js');
const options = ['--emptyOutDir', '--configLoader', 'native', '--logLevel', 'warn'];
const buildMs = 300_000;
/** What the page is made of outside its own folder, and what makes it. */
const further = ['services/contract', 'package-lock.json', 'scripts/web.ts'];
/** Larger files get a lower quality: the last few percent would take ten times as long. */
const largeBytes = 1_000_000;
const isCompressible = /\.(html|js|css|svg|json)$/;

/**
 * Builds the page into `<dataDir>/web/<hash of the sources>`, unless that folder exists, and resolves with the folder. Text files
 * lie beside their `.br` and `.gz`. Concurrent builds are safe: each builds in a folder of its own, and the first one's is kept.
 * Throws with the bundler's error if the sources cannot be built.
 */
export const buildPage = async (dataDir = join(projectFolder, '.codebox')): Promise<string> => {
  const folder = join(dataDir, 'web', await hashSources());
  if (existsSync(folder)) return folder;
  const aside = `${folder}.${randomUUID()}`;
  try {
    await mkdir(aside, { recursive: true });
    const args = [bundler, 'build', sourceFolder, ...options, '--outDir', aside];
    // With another value the page would have the development build of React.
    const env = { ...process.env, NODE_ENV: 'production' };
    const { stderr } = await promisify(execFile)(process.execPath, args, { timeout: buildMs, env });
    process.stderr.write(stderr);
    await compress(aside);
    await rename(aside, folder);
  } catch (cause) {
    if (!existsSync(folder)) throw new Error(`The page cannot be built: ${cause}`, { cause });
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
  return folder;
};

const filesBelow = async (folder: string): Promise<string[]> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : [])).sort();
};

const hashSources = async (): Promise<string> => {
  const hash = createHash('sha256');
  for (const place of ['services/web', ...further]) {
    const path = join(projectFolder, place);
    const files = extname(place) === '' ? await filesBelow(path) : [path];
    for (const file of files) hash.update(`${file.slice(projectFolder.length)}\0`).update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 16);
};

const compress = async (folder: string): Promise<void> => {
  const texts = (await filesBelow(folder)).filter((file) => isCompressible.test(file));
  await Promise.all(
    texts.map(async (file) => {
      const bytes = await readFile(file);
      const quality = bytes.length > largeBytes ? 9 : 11;
      const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length, [constants.BROTLI_PARAM_QUALITY]: quality };
      await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params }));
      await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }));
    }),
  );
};

if (import.meta.main) process.stdout.write(`${await buildPage(process.argv[2])}\n`);
