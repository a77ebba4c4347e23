import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type AgentInfo, type Chat, createClient, type Page } from '#contract';
import { buildPage } from '../../scripts/web.ts';
import { eventually } from '../api/harness.ts';
import { familyOf, postmasterOf, signalAll } from '../faults/processes.ts';
import { freePort } from '../free-port.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';

const project = resolve(import.meta.dirname, '../..');
let dataDir: string;
let started: ChildProcess | undefined;
let output = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(quickFolder, 'codebox-start-'));
  await placeDatabase(dataDir);
  output = '';
});
afterEach(async () => {
  if (started?.exitCode === null && started.signalCode === null) {
    const ended = once(started, 'exit');
    started.kill('SIGTERM');
    await ended;
  }
  await rm(dataDir, { recursive: true, force: true });
});

const start = async (env: Record<string, string> = {}) => {
  const [port, agentPort] = [await freePort(), await freePort()];
  started = spawn(process.execPath, [join(project, 'scripts/start.ts')], {
    cwd: project,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      CODEBOX_DATA_DIR: dataDir,
      CODEBOX_PORT: String(port),
      CODEBOX_AGENT_PORT: String(agentPort),
      CODEBOX_DRIVER: 'local',
      CODEBOX_WARM_BOXES: '0',
      CODEBOX_STOP_SECONDS: '2',
      ...env,
    },
  });
  const note = (chunk: Buffer) => {
    output += chunk.toString();
  };
  started.stdout?.on('data', note);
  started.stderr?.on('data', note);
  const host = env.CODEBOX_HOST === '::1' ? '[::1]' : '127.0.0.1';
  return { gateway: `http://${host}:${port}`, agent: `http://127.0.0.1:${agentPort}` };
};
const isUp = (url: string) => () =>
  fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
const isDown = (url: string) => async () => !(await isUp(url)());
/** Resolves with the processes of a part. */
const pidsOf = async (part: 'gateway' | 'agent'): Promise<number[]> => {
  const pids = await readFile(`/proc/${started?.pid}/task/${started?.pid}/children`, 'utf8');
  const named = await Promise.all(
    pids.split(' ').map(async (pid) => [pid, await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')]),
  );
  return named.filter(([, line]) => line?.includes(`services/${part}/main.ts`)).map(([pid]) => Number(pid));
};

test('npm start serves the gateway, the agent and its page; a killed agent restarts with its chats, and all parts end together', async () => {
  // The page is built once for all tests.
  await symlink(dirname(await buildPage()), join(dataDir, 'web'));
  const metricsPort = await freePort();
  const { gateway, agent } = await start({ CODEBOX_AGENT_METRICS_PORT: String(metricsPort) });
  await eventually(isUp(agent), 120_000);
  expect(await (await fetch(`${gateway}/healthz`)).json()).toEqual({ status: 'ok' });
  const metrics = `http://127.0.0.1:${metricsPort}`;
  const responses = [`${metrics}/metrics`, `${metrics}/v1/info`, `${agent}/metrics`].map((url) => fetch(url));
  expect((await Promise.all(responses)).map(({ status }) => status)).toEqual([200, 404, 404]);
  const page = await fetch(`${agent}/`);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'self'");
  expect(await page.text()).toContain('<div id=');
  const cookie = page.headers.get('set-cookie')?.split(';')[0] ?? '';
  const info = (await (await fetch(`${agent}/v1/info`)).json()) as AgentInfo;
  expect(info).toMatchObject({ isOpen: true });
  const made = await fetch(`${agent}/v1/chats`, { method: 'POST', body: '{}', headers: { cookie } });
  const { id } = (await made.json()) as Chat;

  const [pid = 0, ...more] = await pidsOf('agent');
  expect(more).toEqual([]);
  process.kill(pid, 'SIGKILL');
  await eventually(async () => (await pidsOf('agent'))[0] !== pid && (await isUp(agent)()));
  const chats = (await (await fetch(`${agent}/v1/chats`, { headers: { cookie } })).json()) as Page<Chat>;
  expect(chats.items.map((chat) => chat.id)).toEqual([id]);
  expect(output).toContain(`The agent serves at http://localhost:${new URL(agent).port}`);

  started?.kill('SIGTERM');
  await eventually(isDown(gateway));
  await eventually(isDown(agent));
});

test('a killed gateway is reported and restarted, also at an IPv6 address, and no part outlives its supervisor', async () => {
  const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
  const { gateway, agent } = await start({ CODEBOX_AGENT_PAGE: dataDir, ...(hasIPv6 && { CODEBOX_HOST: '::1' }) });
  await eventually(isUp(agent), 120_000);
  const [pid = 0] = await pidsOf('gateway');
  process.kill(pid, 'SIGKILL');
  await eventually(async () => (await pidsOf('gateway')).some((other) => other !== pid) && (await isUp(gateway)()));
  expect(output).toMatch(/The gateway was ended by SIGKILL; it is started again in [\d.]+ s\./);
  const parts = [...(await pidsOf('gateway')), ...(await pidsOf('agent'))];
  expect(parts).toHaveLength(2);
  started?.kill('SIGKILL');
  await eventually(async () => parts.every((part) => !existsSync(`/proc/${part}`)));
});

test('CODEBOX_AGENT=0 starts the gateway alone', async () => {
  const { gateway, agent } = await start({ CODEBOX_AGENT: '0' });
  await eventually(isUp(gateway), 120_000);
  expect(await pidsOf('agent')).toEqual([]);
  expect(await isUp(agent)()).toBe(false);
});

test.each([
  ['its settings', { CODEBOX_PORT: 'http' }, 'CODEBOX_PORT: '],
  ['a file that they name', { CODEBOX_TEMPLATES: '/nowhere/templates.yaml' }, 'The gateway gives up: '],
])('a fault in %s ends npm start with a message and EX_CONFIG, without a retry', async (_what, env, message) => {
  await start({ CODEBOX_AGENT: '0', ...env });
  await eventually(async () => started?.exitCode !== null);
  expect(started?.exitCode).toBe(78);
  expect(output).toContain(message);
  expect(output).not.toContain('started again');
});

test('after a SIGKILL of all processes the next start serves again with boxes and variables, the gateway before the agent', async () => {
  const page = { CODEBOX_AGENT_PAGE: dataDir };
  const first = await start(page);
  await eventually(isUp(first.agent), 120_000);
  const key = (await readFile(join(dataDir, 'dev-key'), 'utf8')).trim();
  const client = createClient({ url: first.gateway, key });
  const box = await client.boxes.create({});
  await client.executions.run(box.id, { code: 'x = 41' });
  const family = await familyOf(started?.pid ?? 0);
  const database = await familyOf(await postmasterOf(join(dataDir, 'postgres')));
  const ended = started && once(started, 'exit');
  signalAll([...family, ...database], 'SIGKILL');
  await ended;
  output = '';
  const { gateway, agent } = await start(page);
  await Promise.all([eventually(isUp(gateway)), eventually(isUp(agent))]);
  await eventually(async () => output.includes('The agent serves at'));
  expect(output.slice(0, output.indexOf('The agent serves at'))).toContain('CodeBox serves at');
  const again = createClient({ url: gateway, key });
  expect((await again.executions.run(box.id, { code: 'x + 1' })).text).toBe('42');
  await again.boxes.delete(box.id);
});
