import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { readBuildContext } from '../host/build-context.ts';
import type { PackageSources } from '../package-sources.ts';
import type { LocalEnvironment } from './environment/environment.ts';
import { sandboxOptions } from './sandbox.ts';

/**
 * Returns a digest of what a box would be created from now: the box server and its installation, the seccomp filter, the files of `etc` (by
 * its name, which is a hash), the programs of the host, the options of the sandbox, and whether the server is forked.
 */
export const environmentRevision = async (
  boxFolder: string,
  { venv, filter }: LocalEnvironment,
  packages: PackageSources,
  etc: string,
  isForked: boolean,
): Promise<string> => {
  const { hash } = await readBuildContext(boxFolder, {});
  const files = {
    id: 'any',
    token: '',
    venv,
    etc: basename(etc),
    server: '',
    start: '',
    passwd: '',
    group: '',
    hosts: '',
    run: '',
    network: 'none' as const,
    disk: undefined,
    cgroups: [],
  };
  const limits = { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 };
  return createHash('sha256')
    .update(JSON.stringify([hash, sandboxOptions({ ...files, limits, uid: undefined, packages }, true), isForked]))
    .update(await readFile(filter))
    .update(await readFile(`${venv}/.stamp`))
    .update(await readFile(`${venv}/share/programs.json`))
    .digest('hex');
};
