import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RunningGateway } from '../api/harness.ts';
import { project } from '../pages.ts';
import { npmClients, printVersions, pythonClients, runJavaScript, runPython } from './clients.ts';

export const versions = {
  npm: '@modelcontextprotocol/sdk@1.32.2',
  python: 'mcp==2.3.0',
  inspector: '@modelcontextprotocol/inspector@2.12.0',
};

/**
 * The first lines of programs in JavaScript. `open` connects a client over HTTP, with a session to continue, or over stdio; `call`
 * resolves with the result of a tool.
 */
const imports = `
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
const { MCP_URL: url, CODEBOX_API_KEY: key, BRIDGE: bridge } = process.env;
const open = async ({ session: sessionId, headers = {}, at = url, stdio = false } = {}) => {
  const requestInit = { headers: { Authorization: 'Bearer ' + key, ...headers } };
  const transport = stdio
    ? new StdioClientTransport({ command: process.execPath, args: [bridge], env: process.env, stderr: 'inherit' })
    : new StreamableHTTPClientTransport(new URL(at), { requestInit, sessionId });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  return { client, transport, call, run: async (code) => (await call('run_code', { code })).structuredContent };
};
const failure = (promise) => promise.then(() => 'no error', (error) => error.message);
`;

const pythonImports = `
import asyncio, os
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
key = os.environ["CODEBOX_API_KEY"]
def connect(mode="auto", **headers):
    headers = {"Authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return Client(streamable_http_client(os.environ["MCP_URL"], http_client=http), mode=mode)
`;

let [folder, python, inspector] = ['', '', ''];

/** Installs the clients, unless an earlier run has. */
export const installClients = async (): Promise<void> => {
  folder = await npmClients(versions.npm);
  inspector = await npmClients(versions.inspector);
  python = await pythonClients(versions.python);
  printVersions('MCP', versions);
};

const bridge = join(project, 'scripts/mcp.ts');

/** The clients of a gateway, as programs in their languages. */
export const clientsOf = (place: () => RunningGateway) => {
  const env = (key = place().key) => ({
    MCP_URL: `${place().url}/mcp`,
    CODEBOX_URL: place().url,
    CODEBOX_API_KEY: key,
    BRIDGE: bridge,
  });
  return {
    js: <T>(body: string, key?: string) => runJavaScript<T>(folder, imports, body, env(key)),
    py: <T>(statements: string) => runPython<T>(python, pythonImports + statements, env()),

    /** Runs the inspector, over HTTP or over stdio, and resolves with its output. */
    inspect: async (over: 'http' | 'stdio', ...args: string[]): Promise<Record<string, unknown>> => {
      const main = join(inspector, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
      const server =
        over === 'http'
          ? [`${place().url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${place().key}`]
          : [process.execPath, bridge, ...Object.entries(env()).flatMap(([name, value]) => ['-e', `${name}=${value}`])];
      const options = { cwd: inspector, timeout: 60_000 };
      const { stdout } = await promisify(execFile)(process.execPath, [main, '--cli', ...server, ...args], options);
      return JSON.parse(stdout) as Record<string, unknown>;
    },
  };
};
