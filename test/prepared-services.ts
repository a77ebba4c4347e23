import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'vite';
import nodeFlags from '../scripts/node-flags.json' with { type: 'json' };
import { projectFolder } from '../scripts/project.ts';

export type Service = 'gateway' | 'agent';

/** Passes the folder to the processes that run test files. */
const variable = 'CODEBOX_TEST_SERVICES';
/** The folder that this project has made, and removes. */
let made: string | undefined;
/** Bundles find packages from here. */
const parent = join(projectFolder, '.codebox/test-cache');
/** Large packages, which services import only if they are used. `pg` and `ssh2` can do without the last two. */
const unbundled = [
  '@aws-sdk/client-s3',
  '@azure/identity',
  '@azure/storage-blob',
  '@kubernetes/client-node',
  'cpu-features',
  'pg-native',
];

const mainOf = (service: Service, root = projectFolder): string => join(root, 'services', service, 'main.ts');
/** Runs many services in one process. */
const hostFile = join(projectFolder, 'test/service-host.ts');

/** Sources read files beside them, which stay where they are. */
const placesOfSources: Plugin = {
  name: 'places-of-sources',
  enforce: 'pre',
  transform: (code, id) =>
    id.startsWith(join(projectFolder, 'services/'))
      ? code
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
          .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
      : null,
};

/**
 * Before all files: bundles the services. Tests start them hundreds of times, and half of the CPU time of a start is the loading of
 * a thousand modules. The tests of `npm start`, of systemd and of the service image run the sources, as users do.
 */
export const setup = async (): Promise<void> => {
  // Made for another project of this run, or for a run that this one is a test of.
  if (process.env[variable]) return;
  // The bundler is large, and only this process needs it.
  const { build } = await import('vite');
  await mkdir(parent, { recursive: true });
  const outDir = await mkdtemp(join(parent, 'services-'));
  made = outDir;
  process.env[variable] = outDir;
  await build({
    configFile: false,
    root: projectFolder,
    logLevel: 'error',
    plugins: [placesOfSources],
    define: { __dirname: 'import.meta.dirname' },
    ssr: { noExternal: true, external: unbundled },
    build: {
      ssr: true,
      outDir,
      rolldownOptions: { input: { gateway: mainOf('gateway'), agent: mainOf('agent'), host: hostFile } },
    },
  });
};

/** After all files: removes the bundles. */
export const teardown = async (): Promise<void> => {
  // Hosts that end with their workers still write compiled code.
  if (made) await rm(made, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
};

/** The arguments of Node that run a program, and the environment variables that it needs. */
interface Program {
  args: string[];
  env: Record<string, string>;
}

const sourceOf = (file: string): Program => ({ args: [...nodeFlags, file], env: {} });

/** Bundles need no module hooks, and their compiled code is removed with them. */
const bundleOf = (name: string, folder: string): Program => ({
  args: [...nodeFlags.filter((flag) => !flag.startsWith('--import=')), join(folder, `${name}.js`)],
  env: { NODE_COMPILE_CACHE: join(folder, 'compiled') },
});

/** Returns the bundle of a service; without one, as in a benchmark, or for a copy of the project below `root`, its sources. */
export const programOf = (service: Service, root = projectFolder): Program => {
  const folder = root === projectFolder ? process.env[variable] : undefined;
  return folder ? bundleOf(service, folder) : sourceOf(mainOf(service, root));
};

/** Returns the program of `service-host.ts`, whose memory holds many services. */
export const hostProgram = (): Program => {
  const folder = process.env[variable];
  const { args, env } = folder ? bundleOf('host', folder) : sourceOf(hostFile);
  return { args: args.filter((flag) => !flag.startsWith('--max-semi-space-size=')), env };
};
