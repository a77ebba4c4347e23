import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type KubernetesObject, loadAllYaml } from '@kubernetes/client-node';
import { projectFolder } from '../../scripts/project.ts';

const run = promisify(execFile);
const helmDeadlineMs = 320_000;

/** The folder of the chart. */
export const chart = join(projectFolder, 'deploy/helm/codebox');

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
