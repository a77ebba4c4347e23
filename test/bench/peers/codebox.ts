import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { instanceFootprint, instancePids } from '../instances.ts';
import { untilWarm } from '../warm-pool.ts';
import type { Product, Sandbox } from './product.ts';

const names = { docker: 'CodeBox, Docker', local: 'CodeBox, local', kubernetes: 'CodeBox, Kubernetes' };

/** Starts a gateway whose pool has `size` boxes, and which also creates boxes without the pool. `folder` is for its templates. */
export const startCodeBox = async (
  own: GatewayOptions,
  size: number,
  folder: string,
): Promise<{ products: Product[] } & AsyncDisposable> => {
  await using stack = new AsyncDisposableStack();
  const templates = join(folder, `${own.driver}.yaml`);
  await writeFile(templates, `python: { warm: ${size} }\ncold: {}\n`);
  const settings = {
    CODEBOX_TEMPLATES: templates,
    CODEBOX_MAX_BOXES: String(3 * size),
    CODEBOX_MAX_MEMORY_MB: '200000',
    CODEBOX_QUEUE_SECONDS: '240',
  };
  const gateway = stack.use(await startGateway({ ...own, settings }));
  const { client } = gateway;
  const create = async (template: string, expected: 'warm' | 'cold'): Promise<Sandbox> => {
    const { id, kind, status } = await client.create({ template });
    if (id === undefined || kind !== expected) throw new Error(`expected a ${expected} box: ${status} ${kind}`);
    return {
      onePlusOne: async () => (await client.execute(id, '1+1')).text === '2',
      [Symbol.asyncDispose]: () => client.boxes.delete(id),
    };
  };
  const ready = async () => void (await untilWarm(gateway, size));
  const name = names[own.driver];
  const products: Product[] = [
    {
      name,
      note: `boxes of a pool of ${size}, each with a server and a live kernel that has loaded numpy, pandas and matplotlib`,
      kind: 'pool',
      ready,
      create: () => create('python', 'warm'),
      async idle(count) {
        await ready();
        const mib: number[] = [];
        for (const pid of (await instancePids(gateway)).slice(0, count)) {
          mib.push((await instanceFootprint(gateway, pid)).share);
        }
        return [{ state: 'with numpy, pandas, matplotlib', mib }];
      },
    },
    {
      name: `${name}, no pool`,
      note: 'the same boxes, created when they are requested',
      kind: 'no pool',
      ready,
      create: () => create('cold', 'cold'),
      idle: async () => [],
    },
  ];
  const things = stack.move();
  return { products, [Symbol.asyncDispose]: () => things.disposeAsync() };
};
