import { baseImage } from './base-image.ts';
import { prepareFullImage, reasonOf } from './docker-image.ts';

// Builds the full image, which takes some minutes. `npm start` then offers it as the template `full`.
const log = (line: string) => process.stdout.write(`${line}\n`);
const { signal } = new AbortController();
try {
  await baseImage({ log, signal });
  log(await prepareFullImage(process.env, { log, signal }));
  // The client of the daemon keeps connections open.
  process.exit();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? reasonOf(error) : error}\n`);
  process.exit(1);
}
