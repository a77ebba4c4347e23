import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDaemon } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { runHostCommand } from '../services/gateway/drivers/host/host-command.ts';
import { lockMachine } from './machine-lock.ts';
import { projectFolder } from './project.ts';

/** Variables for the tests of a cluster, or the reason why these do not run. */
interface Prepared {
  env: Record<string, string>;
  /** Why the tests do not run although this machine could run a cluster. */
  failure?: string;
  /** Whether this machine has a cluster. */
  isOffered: boolean;
  resume?(): Promise<void>;
  stop(): Promise<void>;
}

/** A Kubernetes cluster for the tests, which may take minutes to start. Disposing it stops the cluster. */
export interface TestCluster extends AsyncDisposable {
  /** Never rejects. */
  prepared: Promise<Prepared>;
  /** Starts it again if tests have stopped it. */
  resume(): Promise<void>;
}

interface TestClusterOptions {
  /** A folder that is kept between runs, with the state of the cluster and its images. */
  folder: string;
  /** The box image, and the Docker daemon that has it; undefined without a daemon. */
  image: string | undefined;
  host: string | undefined;
  log: (line: string) => void;
  signal: AbortSignal;
}

/** Addresses and ports that differ from those of a cluster that this machine may already run, and a runtime class `gvisor`. */
const settings = {
  KX_GVISOR: '1',
  KX_NET: '10.151',
  KX_POD: '10.152',
  KX_SVC: '10.153',
  KX_ETCD: '13379',
  KX_ETCDPEER: '13380',
  KX_KCMPORT: '13257',
  KX_SCHEDPORT: '13259',
};
const environment = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/root', ...settings };
/** The name of CodeBox's own profile of system calls in the kubelet's folder. */
const seccompProfile = 'codebox.json';
const upMs = 300_000;
const importMs = 600_000;
const nodes = ['n1', 'n2'] as const;

/** Another run has its addresses, and is done within this time. */
const lockMs = 1_800_000;
/** The folders where the program `cluster` keeps other programs: Helm and others, and the containerd of the nodes with its client. */
const cache = process.env.KX_CACHE ?? '/var/cache/kx';
const [programs, containerdPrograms] = [join(cache, 'bin'), join(cache, 'cd2')];

/** The program that starts a cluster on this machine: `cluster up FOLDER NODES`, `cluster down FOLDER`. Undefined when none is named. */
const findProgram = (): string | undefined =>
  process.env.CODEBOX_TEST_CLUSTER && join(process.env.CODEBOX_TEST_CLUSTER, 'cluster');

const runProgram = (verb: 'up' | 'down', folder: string, ...args: string[]): Promise<string> =>
  runHostCommand(['bash', findProgram() ?? '', verb, folder, ...args], { env: environment, timeoutMs: upMs });

/** Starts those parts of a cluster with the given number of nodes that are not running. */
const bringUp = (folder: string, count: number = nodes.length): Promise<string> =>
  runProgram('up', folder, String(count));

/**
 * Begins to prepare the cluster that `CODEBOX_TEST_KUBECONFIG` names, whose nodes have or can pull `CODEBOX_TEST_CLUSTER_IMAGE`, or else to start
 * one of two nodes with the box image.
 */
export const startCluster = (options: TestClusterOptions): TestCluster => {
  const prepared = prepare(options).catch(
    async (error: unknown): Promise<Prepared> => ({
      env: {},
      failure: await describeFailure(error, options.folder),
      isOffered: true,
      stop: async () => {},
    }),
  );
  return {
    prepared,
    resume: async () => (await prepared).resume?.(),
    [Symbol.asyncDispose]: async () => (await prepared).stop(),
  };
};

/** Returns the messages of an error and its causes, and the last lines of the cluster's logs. */
const describeFailure = async (error: unknown, folder: string): Promise<string> => {
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) messages.push(cause.message);
  const logs = await readdir(`${folder}/log`).catch(() => []);
  const tails = logs.map(async (name) => {
    const lines = (await readFile(`${folder}/log/${name}`, 'utf8')).trimEnd().split('\n').slice(-3);
    return `${name}:\n${lines.map((line) => `  ${line.slice(0, 300)}`).join('\n')}`;
  });
  return [...messages, ...(await Promise.all(tails))].join('\n');
};

const prepare = async (options: TestClusterOptions): Promise<Prepared> => {
  const isGiven = Boolean(process.env.CODEBOX_TEST_KUBECONFIG);
  if (isGiven || findProgram() === undefined || process.getuid?.() !== 0)
    return { env: {}, isOffered: isGiven, stop: async () => {} };
  const { folder, image, log, signal } = options;
  if (image === undefined) throw new Error('the box image is built with Docker');
  const purpose = 'the Kubernetes cluster of this machine';
  await using stack = new AsyncDisposableStack();
  stack.use(await lockMachine(`${folder}.lock`, { purpose, waitMs: lockMs, log, signal }));
  log('Starting a Kubernetes cluster.');
  stack.defer(async () => void (await runProgram('down', folder)));
  const isKept = (await readFile(keptImage(folder), 'utf8').catch(() => '')) === image;
  await start({ ...options, image }, isKept).catch(async (error: unknown) => {
    // The remains of an earlier run may be broken.
    if (!isKept || signal.aborted) throw error;
    await start({ ...options, image }, false);
  });
  const env = {
    ...settings,
    PATH: `${environment.PATH}:${programs}`,
    CODEBOX_TEST_KUBECONFIG: `${folder}/kubeconfig`,
    CODEBOX_TEST_CLUSTER_IMAGE: image,
    CODEBOX_TEST_SECCOMP: seccompProfile,
    // The cluster has no registry.
    CODEBOX_TEST_PULL_POLICY: 'Never',
    // Installing, upgrading and removing the chart takes six minutes.
    ...(process.env.CODEBOX_TEST_RELEASE === '1' && {
      CODEBOX_TEST_CLUSTER_LOAD: importCommand(folder),
      CODEBOX_TEST_CLUSTER_NODE: nodes[0],
    }),
    CODEBOX_TEST_CLUSTER_TO_BREAK: folder,
    // After its last test.
    CODEBOX_TEST_CLUSTER_STOPS: '1',
    CODEBOX_TEST_RUNTIME_CLASS: 'gvisor',
  };
  const owned = stack.move();
  const resume = async () => void (await bringUp(folder));
  return { env, isOffered: true, resume, stop: () => owned.disposeAsync() };
};

/** The file with the name of the image that all nodes have. */
const keptImage = (folder: string): string => `${folder}/imported`;

/** Starts the cluster; of earlier runs, which may have ended in any way, it keeps at most the images of the nodes. */
const start = async (options: ImportOptions, isKept: boolean): Promise<void> => {
  const { folder, image, signal } = options;
  await mkdir(folder, { recursive: true });
  // Process ids that were written before the machine was switched off may be those of other programs now.
  await runProgram('down', folder, ...(isKept ? [] : ['--purge']));
  signal.throwIfAborted();
  for (const state of ['etcd', 'log']) await rm(join(folder, state), { recursive: true, force: true });
  for (const node of nodes) await writeSeccompProfile(join(folder, node, 'kubelet/seccomp'));
  if (!isKept) {
    await bringUp(folder, 1);
    await importImage(options);
    await runProgram('down', folder);
    await copyImages(folder);
    await writeFile(keptImage(folder), image);
  }
  await bringUp(folder);
};

/** Writes CodeBox's own profile as docs/drivers.md describes: in the format of container runtimes, which differs from Docker's. */
const writeSeccompProfile = async (folder: string): Promise<void> => {
  const { archMap, syscalls, ...rest }: SeccompProfile = JSON.parse(
    await readFile(join(projectFolder, 'images/box/seccomp.json'), 'utf8'),
  );
  const profile = {
    ...rest,
    architectures: archMap.map(({ architecture }) => architecture),
    syscalls: syscalls.map(({ comment: _, ...call }) => call),
  };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, seccompProfile), JSON.stringify(profile));
};

interface SeccompProfile {
  archMap: { architecture: string }[];
  syscalls: { comment?: string }[];
}

type ImportOptions = TestClusterOptions & { image: string };

/** Brings the box image from the Docker daemon into the first node. */
const importImage = async ({ folder, image, host, log, signal }: ImportOptions): Promise<void> => {
  log(`Bringing the image ${image} into the cluster.`);
  const daemon = createDaemon(host);
  const archive = await daemon.call(signal, (docker) => docker.getImage(image).get(), importMs);
  const command = ['-c', importCommand(folder)];
  const child = spawn('bash', command, { env: environment, stdio: ['pipe', 'ignore', 'inherit'], signal });
  archive.pipe(child.stdin);
  const [code] = await once(child, 'exit', { signal: AbortSignal.any([signal, AbortSignal.timeout(importMs)]) });
  if (code !== 0) throw new Error('the box image could not be brought into the cluster');
};

/** Gives the second node the images of the first. Their files never change, so links are enough, which takes seconds. */
const copyImages = async (folder: string): Promise<void> => {
  const [from, to] = nodes.map((node) => join(folder, node, 'containerd')) as [string, string];
  await runHostCommand(['cp', '--archive', '--link', from, to], { timeoutMs: importMs });
  for (const index of ['io.containerd.metadata.v1.bolt/meta.db', 'io.containerd.snapshotter.v1.overlayfs/metadata.db'])
    await runHostCommand(['cp', '--remove-destination', join(from, index), join(to, index)]);
};

/** A shell command that imports images from its input into the first node, also after that has been started anew. */
const importCommand = (folder: string): string => {
  const node = `$(cat "/proc/$(cat ${folder}/run/n1.pid)/task/$(cat ${folder}/run/n1.pid)/children")`;
  const client = `${join(containerdPrograms, 'ctr')} --address /run/containerd/containerd.sock --namespace k8s.io`;
  return `nsenter --target ${node} --mount --net ${client} images import -`;
};
