import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { projectFolder } from '../../../scripts/project.ts';
import type { GatewayOptions } from '../gateway-process.ts';
import { owned } from '../owned.ts';
import { mustRun } from '../program.ts';
import { startCodeBox } from './codebox.ts';
import { dockerExec } from './docker-exec.ts';
import { startKernelGateway } from './kernel-gateway.ts';
import { startLlmSandbox } from './llm-sandbox.ts';
import type { Product } from './product.ts';

const label = 'codebox-bench-peer';

/** Starts CodeBox with each driver, which has a pool of `size`, and what could be used instead. What is missing of the latter is installed. */
export const startPeers = async (
  drivers: readonly GatewayOptions[],
  image: string,
  size: number,
): Promise<{ products: Product[] } & AsyncDisposable> => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp('/tmp/codebox-bench-peers-');
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  stack.defer(removeContainers);
  const kernelGateway = stack.use(await startKernelGateway(await versionsInBoxes()));
  const llmSandbox = stack.use(await startLlmSandbox(image, label));
  const products: Product[] = [];
  for (const own of drivers) products.push(...stack.use(await startCodeBox(own, size, folder)).products);
  products.push(...llmSandbox.products, kernelGateway.product, dockerExec(image, label));
  return { products, ...owned(stack) };
};

/** Removes the containers that peers have left. */
const removeContainers = async (): Promise<void> => {
  const left = await mustRun(['docker', 'ps', '--all', '--quiet', '--filter', `label=${label}`]);
  if (left !== '') await mustRun(['docker', 'rm', '--force', '--volumes', ...left.split('\n')]);
};

/** The versions of the Python packages in a box, by name. */
const versionsInBoxes = async (): Promise<Map<string, string>> => {
  const text = await readFile(join(projectFolder, 'images/box/requirements.txt'), 'utf8');
  return new Map([...text.matchAll(/^([\w.-]+)==(\S+)/gm)].map(([, name = '', version = '']) => [name, version]));
};
