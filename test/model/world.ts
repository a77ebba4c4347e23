import { setTimeout as sleep } from 'node:timers/promises';
import type { Box, Execution, Problem } from '#contract';
import type { RunningGateway } from '../api/harness.ts';
import { streamOf } from '../api/harness.ts';

/** A gateway of the model, which is killed and comes back. */
export interface Node {
  name: string;
  gateway: RunningGateway;
  /** Resolves when it serves again. */
  up: Promise<void>;
}

/** One piece of code that was sent, and what its caller was told. */
interface Run {
  token: string;
  box: string;
  /** `done`: it ran once; `refused`: never; `unknown`: at most once. */
  outcome: 'done' | 'refused' | 'unknown';
  execution?: string;
}

/** What the callers know: nothing of the gateways' insides. */
export interface World {
  random: () => number;
  nodes: readonly Node[];
  /** Boxes that were handed out and not asked to be deleted. */
  boxes: Set<string>;
  /** Those as well that were deleted, or whose creation nobody knows the end of. */
  everSeen: Set<string>;
  runs: Run[];
  /** The last status that anybody was told of an execution that had ended. */
  ends: Map<string, string>;
  counts: Map<string, number>;
  /** Aborted when something has failed already. */
  signal: AbortSignal;
}

interface Answer<T> {
  status: number;
  body: T;
  headers: Headers;
}

const callMs = 90_000;
const finalMs = 60_000;

const pick = <T>({ random }: World, items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)];
const otherThan = (world: World, node: Node): Node => world.nodes.find((one) => one !== node) ?? node;
const count = ({ counts }: World, what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);

/** A call, or undefined when the connection broke because the gateway died. */
const send = async <T>(node: Node, method: string, path: string, body?: unknown, key?: string) => {
  try {
    const response = await node.gateway.call(path, {
      method,
      signal: AbortSignal.timeout(callMs),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(key !== undefined && { headers: { 'idempotency-key': key } }),
    });
    const text = await response.text();
    const answer: Answer<T> = {
      status: response.status,
      body: text === '' ? undefined : JSON.parse(text),
      headers: response.headers,
    };
    if (answer.status >= 500 && answer.status !== 503) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return answer;
  } catch (error) {
    if (error instanceof TypeError || (error instanceof SyntaxError && error.message.includes('JSON')))
      return undefined;
    throw error;
  }
};

/** The same request with its key, at either gateway, until an answer is final. */
const sendFinally = async <T>(world: World, node: Node, path: string, body: unknown, key: string) => {
  const deadline = performance.now() + finalMs;
  for (let at = node; ; at = otherThan(world, at)) {
    await at.up;
    const answer = await send<T>(at, 'POST', path, body, key);
    const isPutOff = answer?.headers.get('retry-after') !== null && answer?.headers.get('retry-after') !== undefined;
    if (answer && !isPutOff) return answer;
    // A full deployment stays full for long, for a box that has to come back as for a new one: that is an answer, too.
    const isFull = path === '/v1/boxes' || /are in use/.test((answer?.body as Problem | undefined)?.detail ?? '');
    if (answer?.status === 503 && isFull) return answer;
    if (performance.now() > deadline) throw new Error(`no final answer to ${path} with key ${key}`);
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

const create = async (world: World, node: Node, ask: Record<string, unknown>) => {
  const key = `create-${world.random()}`;
  const answer = await sendFinally<Box>(world, node, '/v1/boxes', ask, key);
  count(world, `create ${answer.status}`);
  if (answer.status !== 201 && answer.status !== 200) return;
  world.everSeen.add(answer.body.id);
  if (answer.body.state !== 'deleted') world.boxes.add(answer.body.id);
};

/** Code that leaves its token in the box, and finds out whose box it is. */
const codeOf = (box: string, token: string, seconds: number) =>
  `import os, time
os.path.exists("owner") or open("owner", "w").write("${box}")
open("tokens", "a").write("${token}\\n")
time.sleep(${seconds})
print(open("owner").read())`;

const run = async (world: World, node: Node, manner: 'plain' | 'keyed' | 'detached') => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return await create(world, node, {});
  const token = `t${world.runs.length}`;
  const note: Run = { token, box, outcome: 'unknown' };
  world.runs.push(note);
  const seconds = Math.round(world.random() * 30) / 100;
  const ask = { code: codeOf(box, token, seconds), ...(manner === 'detached' && { detach: true }) };
  const path = `/v1/boxes/${box}/executions`;
  const answer =
    manner === 'keyed'
      ? await sendFinally<Execution>(world, node, path, ask, `run-${token}`)
      : await send<Execution>(node, 'POST', path, ask);
  count(world, `run ${answer?.status ?? 'cut'}`);
  if (!answer) return;
  if (answer.status >= 400) {
    const { code } = answer.body as unknown as Problem;
    // What is put off or gone has not begun; of a 503 and of a key whose gateway died nobody knows.
    if (['not_found', 'gone', 'too_many_requests'].includes(code)) note.outcome = 'refused';
    return;
  }
  note.execution = answer.body.id;
  noteEnd(world, answer.body);
  if (answer.body.status !== 'ok') return;
  note.outcome = 'done';
  const owner = streamOf(answer.body.outputs, 'stdout');
  if (owner !== `${box}\n`) throw new Error(`${box} holds the files of ${owner}`);
};

const list = async (world: World, node: Node) => {
  const box = pick(world, [...world.everSeen]);
  if (box === undefined) return;
  const answer = await send<{ items: Execution[] }>(node, 'GET', `/v1/boxes/${box}/executions?limit=100`);
  count(world, `list ${answer?.status ?? 'cut'}`);
  if (answer?.status === 200) for (const execution of answer.body.items) noteEnd(world, execution);
};

const remove = async (world: World, node: Node) => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return;
  world.boxes.delete(box);
  const answer = await send(node, 'DELETE', `/v1/boxes/${box}`);
  count(world, `delete ${answer?.status ?? 'cut'}`);
};

const rest = async (world: World, node: Node, how: 'pause' | 'resume' | 'hibernate') => {
  const box = pick(world, [...world.boxes]);
  if (box === undefined) return;
  const answer = await send<Problem>(node, 'POST', `/v1/boxes/${box}/${how}`, {});
  count(world, `${how} ${answer?.status ?? 'cut'}`);
};

/** Dies at once, and is started again. */
const crash = async (world: World, node: Node) => {
  // One at a time: somebody has to serve.
  await otherThan(world, node).up;
  count(world, 'kill -9');
  // Of two kills at once the second one waits for what the first has started, or nobody would end it.
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

/** `steps` operations by chance at one gateway, some at once, in which it is killed `crashes` times. */
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
