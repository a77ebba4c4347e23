import { inTurns, timed } from '../in-turns.ts';
import type { Product } from '../peers/product.ts';
import { type Measure, measure, type Ratio, type Row, ratio } from '../report.ts';

export const peerRows = ['peers-create', 'peers-run', 'peers-burst', 'peers-memory'];

/** Node compiles hot code, as in a gateway that has served for a while. */
const codeBoxWarmUp = 300;
const runWarmUp = 20;

/** What every table says about its products. */
const notes = (products: readonly Product[]): string[] => [
  ...products.map(({ name, note }) => `${name}: ${note}.`),
  'All of them have one CPU and 1 GiB for a sandbox, and no network, but for the kernels of the Jupyter Kernel Gateway. The server of the code interpreter of E2B is not here, because no registry has it: its packages are clients of a service.',
];

/** Each peer as a multiple of each kind of box. */
const besideCodeBox = (products: readonly Product[], measures: readonly Measure[], what: string): Ratio[] => {
  const has = ({ name }: Product) => measures.some((one) => one.name === `${name}: ${what}`);
  const measured = products.filter(has);
  const ours = measured.filter(({ kind }) => kind !== 'peer');
  const peers = measured.filter(({ kind }) => kind === 'peer');
  return peers.flatMap((peer) => ours.map((own) => ratio(measures, `${peer.name}: ${what}`, `${own.name}: ${what}`)));
};

/** Measures the time from a create request to the result of `1+1`, in turns. */
export const measurePeersCreate = async (products: readonly Product[], rounds: number): Promise<Row> => {
  const lanes = products.map((product) => ({ product, name: product.name, ms: [] as number[] }));
  const failures = createFailures();
  // The first round is a warm-up.
  for (let i = -1; i < rounds; i++) {
    for (const { product, ms } of lanes) {
      await allReady(products);
      await failures.noting(product, async () => {
        const one = await toFirstResult(product);
        await one.end();
        if (i >= 0) ms.push(one.ms);
      });
    }
  }
  const what = 'create to first result';
  const measures = lanes.filter(({ ms }) => ms.length > 0).map(({ name, ms }) => measure(`${name}: ${what}`, 'ms', ms));
  return {
    id: 'peers-create',
    title: 'From a create request to the first result, beside other ways to run code',
    measures,
    ratios: besideCodeBox(products, measures, what),
    bars: [],
    notes: [...failures.texts, ...notes(products)],
  };
};

/** Measures `1+1` in a sandbox that has run it before, in turns of twenty. */
export const measurePeersRun = async (all: readonly Product[], rounds: number): Promise<Row> => {
  const products = all.filter(({ kind }) => kind !== 'no pool');
  const what = '`1+1`';
  await using stack = new AsyncDisposableStack();
  const contenders: Parameters<typeof inTurns>[0] = {};
  const failures = createFailures();
  for (const product of products) {
    await failures.noting(product, async () => {
      const run = timed(stack.use(await product.create()).onePlusOne);
      await run(product.kind === 'pool' ? codeBoxWarmUp : 1);
      contenders[`${product.name}: ${what}`] = run;
    });
  }
  const samples = await inTurns(contenders, rounds, runWarmUp);
  const measures = Object.entries(samples).map(([name, ms]) => measure(name, 'ms', ms));
  return {
    id: 'peers-run',
    title: '`1+1` in a sandbox, beside other ways to run code',
    measures,
    ratios: besideCodeBox(products, measures, what),
    bars: [],
    notes: [...failures.texts, ...notes(products)],
  };
};

/** Measures `size` sandboxes that are requested at once: the time to the first result of each, and of the last one. */
export const measurePeersBurst = async (products: readonly Product[], size: number, rounds: number): Promise<Row> => {
  const samples = products.map(({ name }) => ({
    name,
    each: [] as number[],
    last: [] as number[],
    failed: [] as string[],
  }));
  for (let i = 0; i < rounds; i++) {
    for (const [n, product] of products.entries()) {
      await allReady(products);
      const outcomes = await Promise.allSettled(Array.from({ length: size }, () => toFirstResult(product)));
      const done = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      await Promise.all(done.map(({ end }) => end()));
      const ms = done.map((one) => one.ms);
      samples[n]?.each.push(...ms);
      if (ms.length > 0) samples[n]?.last.push(Math.max(...ms));
      for (const outcome of outcomes)
        if (outcome.status === 'rejected') samples[n]?.failed.push(String(outcome.reason));
    }
  }
  const [whatOfEach, whatOfLast] = [`first results of ${size} at once`, `last of ${size} at once`];
  const measured = samples.filter(({ each }) => each.length > 0);
  const measures = measured.flatMap(({ name, each, last }) => [
    measure(`${name}: ${whatOfEach}`, 'ms', each),
    measure(`${name}: ${whatOfLast}`, 'ms', last),
  ]);
  const failures = samples.flatMap(({ name, failed }) =>
    failed.length === 0
      ? []
      : [`${name}: ${failed.length} of ${rounds * size} failed, the first with: ${failed[0]?.slice(0, 300)}`],
  );
  return {
    id: 'peers-burst',
    title: `${size} sandboxes at once, beside other ways to run code`,
    measures,
    ratios: [whatOfEach, whatOfLast].flatMap((what) => besideCodeBox(products, measures, what)),
    bars: [],
    notes: [...failures, ...notes(products)],
  };
};

/** Measures what a sandbox takes that does nothing. */
export const measurePeersMemory = async (products: readonly Product[], count: number): Promise<Row> => {
  const measures: Measure[] = [];
  const failures = createFailures();
  for (const product of products) {
    await failures.noting(product, async () => {
      for (const { state, mib } of await product.idle(count)) {
        measures.push(measure(`${product.name}: ${state}`, 'MiB', mib));
      }
    });
  }
  return {
    id: 'peers-memory',
    title: 'Memory of an idle sandbox, beside other ways to run code',
    measures,
    ratios: besideCodeBox(products, measures, 'with numpy, pandas, matplotlib'),
    bars: [],
    notes: [
      ...failures.texts,
      'PSS: the proportional set sizes of the processes of a sandbox, with the process that keeps its container.',
      ...notes(products),
    ],
  };
};

/** Keeps the failures of products as notes: one that does not work here must not hide the others. */
const createFailures = () => {
  const texts: string[] = [];
  return {
    texts,
    async noting({ name }: Product, measureOne: () => Promise<void>): Promise<void> {
      await measureOne().catch((error: unknown) => texts.push(`${name} failed: ${String(error).slice(0, 300)}`));
    },
  };
};

const allReady = (products: readonly Product[]) => Promise.all(products.map(({ ready }) => ready()));

const toFirstResult = async (product: Product): Promise<{ ms: number; end: () => Promise<void> }> => {
  const startedAt = performance.now();
  const sandbox = await product.create();
  const end = async () => sandbox[Symbol.asyncDispose]();
  try {
    if (!(await sandbox.onePlusOne())) throw new Error('1+1 did not result in 2');
  } catch (error) {
    await end();
    throw error;
  }
  return { ms: performance.now() - startedAt, end };
};
