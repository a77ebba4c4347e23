import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';
import { buildPostgresImage, buildServiceImage } from '../e2e/images.ts';

const loadDeadlineMs = 300_000;

/** An image of the nodes, as the values of the chart name it. */
interface LoadedImage {
  repository: string;
  tag: string;
}

/**
 * Builds the images of the services and brings them to the node. Unchanged layers come from the cache of the daemon. `nextTag` is another name of
 * the same service image.
 */
export const loadServiceImages = async () => {
  const [service, postgres] = [await buildServiceImage(), await buildPostgresImage()];
  const next = `${service}-next`;
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? '',
    DOCKER_HOST: process.env.DOCKER_HOST ?? '',
  };
  await runHostCommand(['docker', 'tag', service, next], { env });
  const load = `docker save ${service} ${next} ${postgres} | ${process.env.CODEBOX_TEST_CLUSTER_LOAD}`;
  const child = spawn('bash', ['-o', 'pipefail', '-c', load], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'exit', { signal: AbortSignal.timeout(loadDeadlineMs) });
  if (code !== 0) throw new Error(`The images could not be loaded by: ${load}`);
  return { service: named(service), postgres: named(postgres), nextTag: named(next).tag };
};

const named = (reference: string): LoadedImage => {
  const [repository = '', tag = ''] = reference.split(':');
  return { repository, tag };
};
