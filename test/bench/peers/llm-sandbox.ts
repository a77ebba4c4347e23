import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pythonClients } from '../../dialects/clients.ts';
import { containerFootprint, containerPids } from '../instances.ts';
import { owned } from '../owned.ts';
import { endChild } from '../program.ts';
import { type Product, type Sandbox, withSandboxes } from './product.ts';

const packages = ['llm-sandbox[docker]==0.3.46'];
const callMs = 300_000;
const program = join(import.meta.dirname, 'llm_sandbox_sessions.py');

interface Reply {
  id: number;
  text?: string;
  error?: string;
}

const kinds = {
  plain: {
    name: 'llm-sandbox',
    note: 'containers of the box image, without the virtual environment that it would make in each; every run copies a file into the container and starts an interpreter, so no variables are kept. Its interactive sessions need Python 3.11.4 on the host',
    state: 'without an interpreter',
  },
} as const;

/** Installs llm-sandbox and starts a program that uses it, with containers of the box image that have `label`. */
export const startLlmSandbox = async (
  image: string,
  label: string,
): Promise<{ products: Product[] } & AsyncDisposable> => {
  const python = await pythonClients(...packages);
  await using stack = new AsyncDisposableStack();
  const child = spawn(python, [program, image, label], { stdio: ['pipe', 'pipe', 'inherit'] });
  stack.defer(() => endChild(child, 30_000));
  const waiting = new Map<number, (reply: Reply) => void>();
  const settle = (reply: Reply) => {
    waiting.get(reply.id)?.(reply);
    waiting.delete(reply.id);
  };
  createInterface({ input: child.stdout }).on('line', (line) => settle(JSON.parse(line)));
  child.on('exit', (code) => {
    for (const id of waiting.keys()) settle({ id, error: `the program of llm-sandbox ended with ${code}` });
  });
  let last = 0;
  const call = async (request: object): Promise<string> => {
    last += 1;
    const id = last;
    const reply = new Promise<Reply>((resolve) => waiting.set(id, resolve));
    const late = setTimeout(() => settle({ id, error: `llm-sandbox did not respond within ${callMs} ms` }), callMs);
    child.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
    const { text = '', error } = await reply.finally(() => clearTimeout(late));
    if (error !== undefined) throw new Error(error);
    return text;
  };

  const create = async (kind: keyof typeof kinds): Promise<Sandbox & { session: string }> => {
    const session = randomBytes(8).toString('hex');
    await call({ do: 'open', session, kind });
    return {
      session,
      onePlusOne: async () => (await call({ do: 'run', session, code: 'print(1+1)' })).trim() === '2',
      [Symbol.asyncDispose]: async () => void (await call({ do: 'close', session })),
    };
  };
  const products = (Object.keys(kinds) as (keyof typeof kinds)[]).map((kind): Product => {
    const { name, note, state } = kinds[kind];
    return {
      name,
      note,
      kind: 'peer',
      ready: async () => {},
      create: () => create(kind),
      idle: (count) =>
        withSandboxes(
          count,
          () => create(kind),
          async (sandboxes) => {
            for (const sandbox of sandboxes) await sandbox.onePlusOne();
            const pids = await containerPids(
              label,
              sandboxes.map(({ session }) => session),
            );
            return [{ state, mib: (await Promise.all(pids.map(containerFootprint))).map(({ share }) => share) }];
          },
        ),
    };
  });
  return { products, ...owned(stack) };
};
