import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { GenericContainer, Wait } from 'testcontainers';
import { afterAll, beforeAll, beforeEach, expect, onTestFailed, test } from 'vitest';
import type { Box, Execution } from '#contract';
import { projectFolder } from '../../scripts/project.ts';
import { freePort } from '../free-port.ts';
import { type BoxTraces, findBox, sweep, takeCensus } from './census.ts';
import { type ComposeFile, readComposeFile } from './compose-file.ts';
import { type ComposeProject, startComposeProject } from './compose-project.ts';
import { runOnHost } from './host.ts';
import { buildPostgresImage, buildServiceImage } from './images.ts';

// Testcontainers would pull its reaper image from a registry; `afterAll` cleans up instead, also after a failed start.
process.env.TESTCONTAINERS_RYUK_DISABLED = 'true';

const setUpDeadlineMs = 480_000;
const readyDeadlineMs = 120_000;
const suffix = randomBytes(4).toString('hex');
// The path is short, because the length of socket paths is limited.
const dataDir = `/tmp/cbx-e2e-${suffix}`;

let project: ComposeProject;
let serviceImage = '';
let settings: Record<string, string> = {};
let url = '';
let agentUrl = '';
let key = '';
let boxId = '';
let traces: BoxTraces | undefined;

/** Reads the compose file with these variables in addition to those of all tests. */
const readFile = (further: Record<string, string> = {}): Promise<ComposeFile> =>
  readComposeFile(join(projectFolder, 'deploy/compose.yaml'), { ...settings, ...further });

const call = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${url}${path}`, {
    signal: AbortSignal.timeout(60_000),
    ...init,
    headers: { Authorization: `Bearer ${key}`, ...init.headers },
  });

const post = async <T>(path: string, body: unknown): Promise<T> => {
  const headers = { 'Content-Type': 'application/json' };
  const response = await call(path, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} returned ${response.status}: ${text}`);
  return JSON.parse(text) as T;
};

const run = (code: string): Promise<Execution> => post(`/v1/boxes/${boxId}/executions`, { code });

const waitUntilReady = async (): Promise<void> => {
  const deadline = performance.now() + readyDeadlineMs;
  while (
    !(await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (performance.now() > deadline) throw new Error('The gateway is not ready.');
    await sleep(100);
  }
};

beforeAll(async () => {
  serviceImage = await buildServiceImage();
  const [port, agentPort] = [await freePort(), await freePort()];
  url = `http://127.0.0.1:${port}`;
  agentUrl = `http://127.0.0.1:${agentPort}`;
  settings = {
    CODEBOX_SERVICE_IMAGE: serviceImage,
    CODEBOX_POSTGRES_IMAGE: await buildPostgresImage(),
    CODEBOX_BOX_IMAGE: process.env.CODEBOX_BOX_IMAGE ?? '',
    CODEBOX_DATA_DIR: dataDir,
    CODEBOX_WARM_BOXES: '0',
    CODEBOX_DOCKER_SOCKET: (process.env.DOCKER_HOST ?? '').replace(/^unix:\/\//, ''),
    CODEBOX_PORT: String(port),
    CODEBOX_AGENT_PORT: String(agentPort),
  };
  project = await startComposeProject(await readFile(), `codebox-e2e-${suffix}`);
}, setUpDeadlineMs);

afterAll(async () => {
  try {
    await project?.down();
  } finally {
    // Without an image nothing has been started.
    if (serviceImage !== '') await sweep(serviceImage, dataDir);
  }
}, 120_000);

// The containers are removed after the tests, so their output is printed at once.
beforeEach(() => {
  onTestFailed(() => console.error(project.output('gateway')));
});

test('the gateway becomes ready without any preparation', async () => {
  await waitUntilReady();
  key = (await runOnHost(serviceImage, `cat ${dataDir}/dev-key`)).trim();
  expect(key).toMatch(/^cbx_/);
});

test('a box keeps its variables between executions', async () => {
  boxId = (await post<Box>('/v1/boxes', {})).id;
  traces = await findBox(dataDir);
  expect(traces).toBeDefined();
  expect((await run('x=41')).status).toBe('ok');
  expect((await run('x+1')).text).toBe('42');
});

test('a file is downloaded byte for byte', async () => {
  const bytes = randomBytes(3_000_001);
  const path = `/v1/boxes/${boxId}/files/folder/random.bin`;
  expect((await call(path, { method: 'PUT', body: bytes })).ok).toBe(true);
  const back = Buffer.from(await (await call(path)).arrayBuffer());
  expect(back.equals(bytes)).toBe(true);
});

test('the disk and the socket folder of a box are bounded by their own file systems', async () => {
  const code = `
import os
def size(path):
    found = os.statvfs(path)
    return found.f_frsize * found.f_blocks
print(size("/mnt/data") <= 1024 ** 3, size("/run/codebox") <= 1024 ** 2)`;
  const { outputs } = await run(code);
  expect(outputs).toMatchObject([{ type: 'stdout', text: 'True True\n' }]);
});

test('a box reaches neither the database nor the gateway', async () => {
  const postgres = await project.addresses('postgres');
  const gateway = await project.addresses('gateway');
  const hosts = [...postgres.map((ip) => [ip, 5432]), ...gateway.map((ip) => [ip, 8080])];
  expect(hosts).toHaveLength(3);

  // As a control, the addresses must be reachable from the gateway.
  const connect = `const net = require('node:net'); for (const [host, port] of ${JSON.stringify(hosts)}) net.connect(port, host,
    function () { console.log('open'); this.end(); }).on('error', (error) => console.log(error.code));`;
  const control = await project.service('gateway').exec(['node', '-e', connect]);
  expect(control.output.trim().split('\n')).toEqual(['open', 'open', 'open']);

  const targets = [...hosts, ['postgres', 5432], ['gateway', 8080], ['172.17.0.1', Number(new URL(url).port)]];
  const code = `
import os, socket
for host, port in ${JSON.stringify(targets)}:
    try:
        socket.create_connection((host, port), 2).close()
        print("open", host, port)
    except OSError:
        pass
print(sorted(os.listdir("/sys/class/net")))`;
  const { outputs } = await run(code);
  expect(outputs).toMatchObject([{ type: 'stdout', text: "['lo']\n" }]);
});

test('a restart of the gateway keeps executions and variables', async () => {
  const { id } = await run('y = 6; print("hello"); x * y');
  const path = `/v1/boxes/${boxId}/executions/${id}`;
  const before = (await (await call(path)).json()) as Execution;
  expect(before).toMatchObject({ status: 'ok', text: '246' });
  await project.service('gateway').restart();
  await waitUntilReady();
  // Until the end is recorded, `finishedAt` is the time of the response.
  expect(await (await call(path)).json()).toEqual({ ...before, finishedAt: expect.any(String) });
  expect((await run('x + y')).text).toBe('47');
});

test('the agent serves its page publicly and its API to callers with a key', async () => {
  const { services } = await readFile({ CODEBOX_API_KEY: key });
  if (services.agent === undefined) throw new Error('There is no service agent.');
  await project.start('agent', services.agent);
  const page = await fetch(agentUrl, { signal: AbortSignal.timeout(60_000) });
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<script type="module"')]);
  expect((await fetch(`${agentUrl}/v1/chats`)).status).toBe(401);

  const send = async (path: string, body: unknown) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await fetch(`${agentUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, unknown>;
  };
  const { id } = await send('/v1/chats', {});
  expect(await send(`/v1/chats/${id}/cells`, { code: '6 * 7' })).toMatchObject({ status: 'ok', text: '42' });
  const headers = { Authorization: `Bearer ${key}` };
  expect((await fetch(`${agentUrl}/v1/chats/${id}`, { method: 'DELETE', headers })).status).toBe(204);
});

test('a deleted box leaves nothing behind on the host', async () => {
  if (traces === undefined) throw new Error('There was no box.');
  const box = traces;
  const count = () => takeCensus(serviceImage, dataDir, box);
  // The census before the deletion proves that it detects every kind of resource.
  const kinds = (await count()).map((line) => line.split(' ')[0]);
  expect(kinds.sort()).toEqual(['container', 'disk', 'folder', 'loop', 'mount', 'volume']);

  expect((await call(`/v1/boxes/${boxId}`, { method: 'DELETE' })).ok).toBe(true);
  const deadline = performance.now() + 60_000;
  let left = await count();
  while (left.length > 0 && performance.now() < deadline) {
    await sleep(500);
    left = await count();
  }
  expect(left).toEqual([]);
});

test('a database of another major version of PostgreSQL stops the start instead of being replaced by an empty one', async () => {
  const { prepare } = (await readFile()).services;
  let output = '';
  const container = new GenericContainer(serviceImage)
    .withEntrypoint(['sh', '-c', 'mkdir -p /database/17 && exec codebox-prepare'])
    .withEnvironment(prepare?.environment ?? {})
    .withNetworkMode('none')
    .withWaitStrategy(Wait.forOneShotStartup())
    .withLogConsumer((stream) => stream.on('data', (line) => (output += line)));
  await expect(container.start()).rejects.toThrow();
  expect(output).toContain('The database was created by PostgreSQL 17, and this is PostgreSQL 18.');
});

test('taking the project down leaves nothing on the daemon', async () => {
  await project.down();
  expect(await project.leftovers()).toEqual([]);
});
