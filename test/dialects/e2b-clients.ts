import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import type { RunningGateway } from '../api/harness.ts';
import { npmClients, pythonClients, runJavaScript, runPython } from './clients.ts';

/** The first clients of each language run all tests, the older ones the main path. */
const npmPackages = [
  ['e2b@2.51.0', '@e2b/code-interpreter@2.8.0'],
  ['e2b@2.49.1', '@e2b/code-interpreter@2.7.2'],
  ['e2b@2.45.0', '@e2b/code-interpreter@2.7.0'],
] as const;
const pythonPackages = [
  ['e2b==2.63.0', 'e2b-code-interpreter==2.11.0'],
  ['e2b==2.55.1', 'e2b-code-interpreter==2.10.5'],
  ['e2b==2.45.1', 'e2b-code-interpreter==2.9.2'],
] as const;
const cliPackages = ['@e2b/cli@2.19.0'] as const;

/** All tested packages with their versions. */
export const testedPackages = [...npmPackages, ...pythonPackages, cliPackages].flat();

/** The first lines of programs in JavaScript: `sandbox` is connected to the sandbox of the tests, if there is one. */
const imports = `
import { Sandbox, Template } from '@e2b/code-interpreter';
const id = process.env.SANDBOX;
const sandbox = id ? await Sandbox.connect(id) : undefined;
const failure = (promise) => promise.then(() => 'no error', (error) => error.constructor.name);
`;
const pythonImports = `
import os, asyncio, httpx
from e2b_code_interpreter import Sandbox, AsyncSandbox
def failure(call):
    try: return call() and 'no error'
    except Exception as error: return type(error).__name__
`;

let folder: string;
let python: string;

/** Installs the newest clients, unless an earlier run has. Resolves with the Python that has them. */
export const installClients = async (): Promise<string> => {
  [folder, python] = await Promise.all([npmClients(...npmPackages[0]), pythonClients(...pythonPackages[0])]);
  return python;
};

/** Leaves at once, because threads of the asynchronous client may abort an interpreter that ends. */
const pythonExit = '\nimport sys; sys.stdout.flush(); os._exit(0)\n';

const environmentOf = ({ key, url }: RunningGateway) => ({
  E2B_API_KEY: toE2bKey(key),
  E2B_API_URL: url,
  E2B_SANDBOX_URL: url,
});

/** Runs the main path with each older client; resolves with the observations of each, by its packages. */
export const runOlderClients = async (gateway: RunningGateway): Promise<Record<string, unknown>> => {
  const seen: Record<string, unknown> = {};
  const env = environmentOf(gateway);
  for (const packages of npmPackages.slice(1))
    seen[packages.join()] = await runJavaScript(
      await npmClients(...packages),
      imports,
      `
      const mine = await Sandbox.create({ timeoutMs: 120_000 });
      const code = (await mine.runCode('6 * 7')).text;
      await mine.files.write('a.txt', 'text');
      return [code, await mine.files.read('a.txt'), (await mine.files.list('.')).map(({ name }) => name),
        (await mine.commands.run('cat a.txt')).stdout, await mine.kill(), await mine.isRunning()];`,
      env,
    );
  for (const packages of pythonPackages.slice(1))
    seen[packages.join()] = await runPython(
      await pythonClients(...packages),
      `${pythonImports}
mine = Sandbox.create(timeout=120)
code = mine.run_code('6 * 7').text
mine.files.write('a.txt', 'text')
show([code, mine.files.read('a.txt'), [each.name for each in mine.files.list('.')], mine.commands.run('cat a.txt').stdout,
  mine.kill(), mine.is_running()])`,
      env,
    );
  return seen;
};

/** Resolves with a function that runs E2B's command line program and resolves with its output. */
export const installCli = async (gateway: RunningGateway) => {
  const program = join(await npmClients(...cliPackages), 'node_modules/@e2b/cli/dist/index.js');
  const env = { ...process.env, ...environmentOf(gateway), NO_COLOR: '1' };
  return async (args: string[], input?: string): Promise<string> => {
    const options = { env, timeout: 60_000 };
    const line = [process.execPath, program, 'sandbox', ...args];
    // With an input it has a terminal, which `script` makes without a size.
    const [command = '', ...rest] = input === undefined ? line : ['script', '-qec', line.join(' '), '/dev/null'];
    const running = promisify(execFile)(command, rest, options);
    running.child.stdin?.[input === undefined ? 'end' : 'write'](input ?? '');
    return (await running).stdout;
  };
};

/** The clients of a gateway, as programs in their languages; and requests to the control plane. */
export const clientsOf = (place: () => { gateway: RunningGateway; sandbox: string }) => {
  const env = () => {
    const { gateway, sandbox } = place();
    return { ...environmentOf(gateway), SANDBOX: sandbox };
  };
  return {
    js: <T>(body: string) => runJavaScript<T>(folder, imports, body, env()),
    py: <T>(statements: string) => runPython<T>(python, pythonImports + statements + pythonExit, env()),

    control: async (method: string, path: string, body?: object, key = toE2bKey(place().gateway.key)) => {
      const init = { method, headers: { 'x-api-key': key }, ...(body && { body: JSON.stringify(body) }) };
      const response = await fetch(`${place().gateway.url}${path}`, init);
      const text = await response.text();
      const parsed = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
      return { status: response.status, headers: response.headers, body: parsed };
    },
  };
};
