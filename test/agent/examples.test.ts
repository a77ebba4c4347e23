import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';
import { startDiscord } from './discord.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';
import { startSlack } from './slack.ts';

const examples = resolve(import.meta.dirname, '../../examples/agent');
const makesFile = 'open("sum.csv", "w").write("sum\\n3\\n")\nprint("made", 1 + 2)';

let models: ModelServer;
let agent: RunningAgent;
let place: string;
const children: { child: ChildProcess; output: () => string }[] = [];
beforeAll(async () => {
  models = await startModelServer();
  agent = await startAgent({
    OPENAI_API_KEY: 'sk',
    OPENAI_BASE_URL: `${models.url}/v1`,
    CODEBOX_MODELS: 'openai/gpt-5',
  });
  place = await mkdtemp(join(tmpdir(), 'codebox-agent-examples-'));
});
afterEach(async () => {
  for (const { child } of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
});
afterAll(async () => {
  await agent?.dispose();
  await models?.[Symbol.asyncDispose]();
  await rm(place, { recursive: true, force: true });
});

/** Runs an example as its header documents. */
const run = (file: string, env: Record<string, string> = {}) => {
  const program = file.endsWith('.sh') ? 'sh' : process.execPath;
  const child = spawn(program, [join(examples, file)], {
    cwd: place,
    env: { ...process.env, CODEBOX_AGENT_URL: agent.url, CODEBOX_KEY: agent.gateway.key, ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  children.push({ child, output: () => output });
  const shows = (text: string) =>
    eventually(async () => {
      if (child.exitCode !== null && !output.includes(text))
        throw new Error(`the example ended without "${text}":\n${output}`);
      return output.includes(text);
    });
  return { child, shows, output: () => output };
};

test('the console shows text, code and output, uploads files, and saves created files', async () => {
  models.script(runs('print(open("in.txt").read())\nopen("out.txt", "w").write("bye")', 'python', 'I look.'), {
    text: 'It says hello.',
  });
  await writeFile(join(place, 'in.txt'), 'hello box');
  const { child, shows, output } = run('console.ts');
  child.stdin.write('/upload in.txt\nWhat is in it?\n');
  await shows('It says hello.');
  await shows('[saved out.txt]');
  expect(output()).toMatch(/I look\.[\s\S]*print\(open[\s\S]*hello box[\s\S]*It says hello\./);
  expect(await readFile(join(place, 'out.txt'), 'utf8')).toBe('bye');
  child.stdin.end();
  const [code] = await once(child, 'exit');
  expect(code).toBe(0);
});

test('the console can stop an answer while its code runs', async () => {
  models.script(runs('import time\nprint("going", flush=True)\ntime.sleep(300)'), { text: 'never' });
  const { child, shows } = run('console.ts');
  child.stdin.write('Wait for long.\n');
  await shows('going');
  child.stdin.write('/stop\n');
  await shows('[stopped]');
  child.stdin.end();
  await once(child, 'exit');
});

test('the Discord bot gives each user a separate chat, with typing indicators, long answers and files', async () => {
  const discord = await startDiscord();
  try {
    const long = Array.from({ length: 300 }, (_, at) => `line ${at} of many`).join('\n');
    models.script(runs(makesFile), { text: long });
    run('discord-bot.ts', { DISCORD_BOT_TOKEN: 'token', DISCORD_API_URL: discord.api });
    await eventually(async () => discord.isJoined());
    discord.write('7', '70', 'Add these.', { 'numbers.csv': 'a\n1\n2\n' });
    const file = await eventually(async () => discord.sent.find(({ files }) => files.length > 0));
    expect(file).toMatchObject({ channel: '70', files: [{ name: 'sum.csv', bytes: Buffer.from('sum\n3\n') }] });
    expect(discord.typing).toContain('70');
    const texts = discord.sent.map(({ content }) => content).filter((text) => text !== '');
    expect(texts.join('\n')).toBe(long);
    expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(2000);
    expect(JSON.stringify(models.requests[0]?.messages)).toContain('numbers.csv');

    models.script(runs('print(sorted(__import__("os").listdir(".")))'), { text: 'Nothing is here.' });
    discord.write('8', '80', 'What is here?');
    await eventually(async () => discord.sent.find(({ channel }) => channel === '80'));
    expect(JSON.stringify(models.requests[1]?.messages)).not.toContain('sum.csv');
    models.script({ text: 'As I said.' });
    discord.write('7', '70', 'Again?');
    await eventually(async () => discord.sent.find(({ content }) => content === 'As I said.'));
    expect(JSON.stringify(models.requests[0]?.messages)).toContain('Add these.');
  } finally {
    await discord.close();
  }
});

test('the Slack app answers each signed event once, in its thread', async () => {
  const slack = await startSlack('secret');
  try {
    const port = await freePort();
    const app = `http://127.0.0.1:${port}`;
    const env = {
      SLACK_SIGNING_SECRET: 'secret',
      SLACK_BOT_TOKEN: 'xoxb-test',
      SLACK_API_URL: slack.api,
      PORT: String(port),
    };
    const { shows } = run('slack-webhook.ts', env);
    await shows('listening');
    const verification = await slack.send(app, { type: 'url_verification', challenge: 'c1' });
    expect(await verification.text()).toBe('c1');
    const files = [{ name: 'in.csv', url_private_download: `${slack.url}/files/in.csv` }];
    const event = { type: 'app_mention', channel: 'C1', user: 'U1', text: '<@B1> Add.', ts: '1.1', files };
    const body = { type: 'event_callback', team_id: 'T1', event_id: 'E1', event };
    expect((await slack.send(app, body, { signedWith: 'other' })).status).toBe(401);
    expect((await slack.send(app, body, { time: Math.floor(Date.now() / 1000) - 3600 })).status).toBe(401);

    models.script(runs(makesFile), { text: 'It is [three](sandbox:/mnt/data/sum.csv).' });
    expect((await slack.send(app, body)).status).toBe(200);
    expect((await slack.send(app, body)).status).toBe(200);
    const done = await eventually(async () =>
      slack.calls.find(({ method }) => method === 'files.completeUploadExternal'),
    );
    expect(done.args).toMatchObject({ channel_id: 'C1', thread_ts: '1.1' });
    expect([...slack.uploaded.values()].map(String)).toEqual(['sum\n3\n']);
    const posts = slack.calls.filter(({ method }) => method === 'chat.postMessage').map(({ args }) => args);
    expect(posts).toEqual([{ channel: 'C1', thread_ts: '1.1', markdown_text: 'It is three.' }]);
    expect(JSON.stringify(models.requests[0]?.messages)).toContain('in.csv');
    expect(models.requestCount()).toBe(2);
  } finally {
    await slack.close();
  }
});

test('the curl example prints its documented output', async () => {
  const file = 'curl/agent.sh';
  models.script(runs('print(6 * 7)'), { text: 'It is 42.' }, runs(makesFile), { text: 'Three.' }, { text: 'Bye.' });
  const expected = [...(await readFile(join(examples, file), 'utf8')).matchAll(/^\s*# → (.*)$/gm)].map(
    ([, line = '']) => line,
  );
  expect(expected.length).toBeGreaterThan(0);
  const { child, output } = run(file);
  const [code] = await once(child, 'close');
  expect(code, output()).toBe(0);
  let rest = output();
  for (const line of expected) {
    expect(rest).toContain(line);
    rest = rest.slice(rest.indexOf(line) + line.length);
  }
});
