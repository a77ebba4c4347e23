import { setTimeout as sleep } from 'node:timers/promises';
import type { Box, Execution, Problem } from '#contract';
import type { GatewayProcess } from '../api/harness.ts';
import { streamOf } from '../api/harness.ts';

/** A gateway of the model, which is killed and restarted. */
export interface Node {
  name: string;
  gateway: GatewayProcess;
  /** Resolves when it serves again. */
  up: Promise<void>;
}

/** One execution that was sent, and the outcome that its caller saw. */
interface Run {
  token: string;
  box: string;
  /** `done`: it ran once; `refused`: never; `unknown`: at most once. */
  outcome: 'done' | 'refused' | 'unknown';
  execution?: string;
}

/** Everything that the callers know; it contains no internals of the gateways. */
export interface World {
  random: () => number;
  nodes: readonly Node[];
  /** Boxes that were created and whose deletion was not requested. */
  boxes: Set<string>;
  /** All boxes ever seen, including deleted ones. */
  everSeen: Set<string>;
  runs: Run[];
  /** The final status of each execution, as reported to any caller. */
  ends: Map<string, string>;
  counts: Map<string, number>;
  /** Aborted when something has failed already. */
  signal: AbortSignal;
}

interface FinalResponse<T> {
  status: number;
  body: T;
  headers: Headers;
}

const callMs = 90_000;
const finalMs = 60_000;

const pick = <T>({ random }: World, items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)];
const otherThan = (world: World, node: Node): Node => world.nodes.find((one) => one !== node) ?? node;
const count = ({ counts }: World, what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);

/** Sends a request; resolves with undefined if the connection broke because the gateway died. */
const send = async <T>(node: Node, method: string, path: string, body?: unknown, key?: string) => {
  try {
    const response = await node.gateway.call(path, {
      method,
      signal: AbortSignal.timeout(callMs),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(key !== undefined && { headers: { 'idempotency-key': key } }),
    });
    const text = await response.text();
    const received: FinalResponse<T> = {
      status: response.status,
      body: text === '' ? undefined : JSON.parse(text),
      headers: response.headers,
    };
    if (received.status >= 500 && received.status !== 503)
      throw new Error(`${method} ${path}: ${received.status} ${text}`);
    return received;
  } catch (error) {
    if (error instanceof TypeError || (error instanceof SyntaxError && error.message.includes('JSON')))
      return undefined;
    throw error;
  }
};

/** Repeats a request with its key, at either gateway, until the response is final. */
const sendFinally = async <T>(world: World, node: Node, path: string, body: unknown, key: string) => {
  const deadline = performance.now() + finalMs;
  for (let at = node; ; at = otherThan(world, at)) {
    await at.up;
    const response = await send<T>(at, 'POST', path, body, key);
    const isPutOff =
      response?.headers.get('retry-after') !== null && response?.headers.get('retry-after') !== undefined;
    if (response && !isPutOff) return response;
    // A full deployment stays full for long, for a restore as for a new box, so this refusal counts as final.
    const isFull = path === '/v1/boxes' || /are in use/.test((response?.body as Problem | undefined)?.detail ?? '');
    if (response?.status === 503 && isFull) return response;
    if (performance.now() > deadline) throw new Error(`no final response to ${path} with key ${key}`);
    await sleep(200);
  }
};

const noteEnd = ({ ends }: World, { id, status, cause }: Pick<Execution, 'id' | 'status' | 'cause'>) => {
  if (status === 'running') return;
  const known = ends.get(id);
  if (known !== undefined && known !== status)
    throw new Error(`${id} has ended as ${known} and as ${status} (${cause?.detail})`);
  ends.set(id, status);
};

const create = async (world: World, node: Node, body: Record<string, unknown>) => {
  const key = `create-${world.random()}`;
  const response = await sendFinally<Box>(world, node, '/v1/boxes', body, key);
  count(world, `create ${response.status}`);
  if (response.status !== 201 && response.status !== 200) return;
  world.everSeen.add(response.body.id);
  if (response.body.state !== 'deleted') world.boxes.add(response.body.id);
};

/** Returns code that leaves its token in the box and prints the box that owns the files. */
const codeOf = (box: string, token: string, seconds: number) =>
  `import os, time
os.path.exists("owner") or open("owner", "w").write("${box}")
open("tokens", "a").write("${token}\\n")
time.sleep(${seconds})
print(open("owner").read())`;

const run = async (world: World, node: Node, mode: 'plain' | 'keyed' | 'detached') => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return await create(world, node, {});
  const token = `t${world.runs.length}`;
  const note: Run = { token, box, outcome: 'unknown' };
  world.runs.push(note);
  const seconds = Math.round(world.random() * 30) / 100;
  const body = { code: codeOf(box, token, seconds), ...(mode === 'detached' && { detach: true }) };
  const path = `/v1/boxes/${box}/executions`;
  const response =
    mode === 'keyed'
      ? await sendFinally<Execution>(world, node, path, body, `run-${token}`)
      : await send<Execution>(node, 'POST', path, body);
  count(world, `run ${response?.status ?? 'cut'}`);
  if (!response) return;
  if (response.status >= 400) {
    const { code } = response.body as unknown as Problem;
    // These refusals mean that the code has not started; after a 503 or a key of a dead gateway that is unknown.
    if (['not_found', 'gone', 'too_many_requests'].includes(code)) note.outcome = 'refused';
    return;
  }
  note.execution = response.body.id;
  noteEnd(world, response.body);
  if (response.body.status !== 'ok') return;
  note.outcome = 'done';
  const owner = streamOf(response.body.outputs, 'stdout');
  if (owner !== `${box}\n`) throw new Error(`${box} holds the files of ${owner}`);
};

const list = async (world: World, node: Node) => {
  const box = pick(world, [...world.everSeen]);
  if (box === undefined) return;
  const response = await send<{ items: Execution[] }>(node, 'GET', `/v1/boxes/${box}/executions?limit=100`);
  count(world, `list ${response?.status ?? 'cut'}`);
  if (response?.status === 200) for (const execution of response.body.items) noteEnd(world, execution);
};

const remove = async (world: World, node: Node) => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return;
  world.boxes.delete(box);
  const response = await send(node, 'DELETE', `/v1/boxes/${box}`);
  count(world, `delete ${response?.status ?? 'cut'}`);
};

const rest = async (world: World, node: Node, how: 'pause' | 'resume' | 'hibernate') => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return;
  const response = await send<Problem>(node, 'POST', `/v1/boxes/${box}/${how}`, {});
  count(world, `${how} ${response?.status ?? 'cut'}`);
};

/** Kills a gateway and restarts it. */
const crash = async (world: World, node: Node) => {
  // The other gateway must serve, so only one is killed at a time.
  await otherThan(world, node).up;
  count(world, 'kill -9');
  // A second kill waits for the restart of the first, or the restarted process would leak.
  node.up = node.up.then(() => node.gateway.kill('SIGKILL')).then(() => node.gateway.restart());
  await node.up;
};

type Operation = (world: World, node: Node) => Promise<void>;

const operations: [weight: number, operation: Operation][] = [
  [30, (world, node) => run(world, node, 'plain')],
  [20, (world, node) => run(world, node, 'keyed')],
  [10, (world, node) => run(world, node, 'detached')],
  [20, list],
  [4, (world, node) => create(world, node, {})],
  [6, (world, node) => create(world, node, { user: `user-${Math.floor(world.random() * 3)}`, reuse: true })],
  [4, remove],
  [2, (world, node) => rest(world, node, 'pause')],
  [2, (world, node) => rest(world, node, 'resume')],
  [2, (world, node) => rest(world, node, 'hibernate')],
];
const allWeights = operations.reduce((sum, [weight]) => sum + weight, 0);

const anyOperation = (random: () => number): Operation => {
  let left = random() * allWeights;
  for (const [weight, operation] of operations) {
    left -= weight;
    if (left < 0) return operation;
  }
  return list;
};

/** Runs `steps` random operations at one gateway in `lanes` concurrent lanes, and kills it `crashes` times. */
export const drive = async (world: World, node: Node, steps: number, crashes: number, lanes: number): Promise<void> => {
  const plan = Array.from({ length: steps }, () => anyOperation(world.random));
  for (let n = 0; n < crashes; n++) plan[Math.floor(world.random() * steps)] = crash;
  const queue = plan.values();
  const lane = async () => {
    for (const operation of queue) {
      world.signal.throwIfAborted();
      await node.up;
      await operation(world, node);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
};
