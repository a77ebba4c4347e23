import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type KubernetesObject, loadAllYaml } from '@kubernetes/client-node';
import { projectFolder } from '../../scripts/project.ts';

const run = promisify(execFile);
const helmDeadlineMs = 320_000;

const chartPath = 'deploy/helm/codebox';
/** The folder of the chart. */
export const chart = join(projectFolder, chartPath);

/** Copies the chart as it was before its last change to a folder. Returns its path, or undefined in a copy of the project without its history. */
export const previousChart = async (folder: string): Promise<string | undefined> => {
  const git = async (...args: string[]) => (await run('git', ['-C', projectFolder, ...args])).stdout.trim();
  try {
    const isChanged = (await git('status', '--porcelain', '--', chartPath)) !== '';
    const commit = isChanged ? 'HEAD' : `${await git('rev-list', '--max-count=1', 'HEAD', '--', chartPath)}^`;
    await git('archive', `--output=${folder}/chart.tar`, commit, chartPath);
  } catch {
    // A shallow clone, an archive of the sources or the first version of the chart.
    return undefined;
  }
  await run('tar', ['-xf', `${folder}/chart.tar`, '-C', folder]);
  return join(folder, chartPath);
};

/** Values of the chart, as a values file has them. */
export type Values = Record<string, unknown>;

/** Runs Helm on the cluster of the tests. Resolves with its output; rejects with its errors. */
export const helm = async (...args: string[]): Promise<string> => {
  const env = { ...process.env, KUBECONFIG: process.env.CODEBOX_TEST_KUBECONFIG };
  return (await run('helm', args, { env, timeout: helmDeadlineMs, maxBuffer: 64 * 1024 * 1024 })).stdout;
};

/** The arguments that give values to Helm. */
export const withValues = (values: Values): string[] =>
  Object.entries(values).flatMap(([name, value]) => ['--set-json', `${name}=${JSON.stringify(value)}`]);

/** Renders the chart without a cluster. */
export const render = async (namespace: string, values: Values): Promise<KubernetesObject[]> =>
  loadAllYaml(await renderText(namespace, values));

/** Renders the chart as the text of its manifests. */
export const renderText = (namespace: string, values: Values): Promise<string> =>
  helm('template', 'codebox', chart, '--namespace', namespace, '--kube-version', '1.30', ...withValues(values));
