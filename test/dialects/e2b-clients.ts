import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import type { RunningGateway } from '../api/harness.ts';
import { npmClients, pythonClients, runJavaScript, runPython } from './clients.ts';

const npmPackages = ['e2b@2.51.0', '@e2b/code-interpreter@2.8.0'];
const pythonPackages = ['e2b==2.63.0', 'e2b-code-interpreter==2.11.0'];

/** What programs in JavaScript begin with: `sandbox` is connected to the sandbox of the tests, if there is one. */
const imports = `
import { Sandbox } from '@e2b/code-interpreter';
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

/** Installs the clients, unless an earlier run has. */
export const installClients = async (): Promise<void> => {
  [folder, python] = await Promise.all([npmClients(...npmPackages), pythonClients(...pythonPackages)]);
  process.stdout.write(`E2B clients: ${[...npmPackages, ...pythonPackages].join(', ')}\n`);
};

/** The clients of a gateway, as programs in their languages; and requests to the control plane. */
export const clientsOf = (place: () => { gateway: RunningGateway; sandbox: string }) => {
  const env = () => {
    const { gateway, sandbox } = place();
    return {
      E2B_API_KEY: toE2bKey(gateway.key),
      E2B_API_URL: gateway.url,
      E2B_SANDBOX_URL: gateway.url,
      SANDBOX: sandbox,
    };
  };
  return {
    js: <T>(body: string) => runJavaScript<T>(folder, imports, body, env()),
    py: <T>(statements: string) => runPython<T>(python, pythonImports + statements, env()),

    control: async (method: string, path: string, body?: object, key = toE2bKey(place().gateway.key)) => {
      const init = { method, headers: { 'x-api-key': key }, ...(body && { body: JSON.stringify(body) }) };
      const response = await fetch(`${place().gateway.url}${path}`, init);
      const text = await response.text();
      const parsed = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
      return { status: response.status, headers: response.headers, body: parsed };
    },
  };
};
