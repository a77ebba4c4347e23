import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningAgent, startAgent } from './agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';

let models: ModelServer;
let agent: RunningAgent;
beforeAll(async () => {
  models = await startModelServer();
  agent = await startAgent({
    OPENAI_API_KEY: 'sk',
    OPENAI_BASE_URL: `${models.url}/v1`,
    CODEBOX_MODELS: 'openai/gpt-5',
  });
});
afterAll(async () => {
  await agent?.dispose();
  await models?.[Symbol.asyncDispose]();
});

const text = (base64: string | null | undefined) => Buffer.from(base64 ?? '', 'base64').toString();
const prompts = () => JSON.stringify(models.requests.map(({ messages }) => messages));
const plots =
  'import matplotlib.pyplot as plt, pandas as pd\npd.read_csv("data.csv").plot(x="day", y="sold")\nplt.show()';

interface Generated {
  content: string;
  files: { name: string; mime: string; base64: string | null }[];
  code_log: { code: string; output: string }[];
  session: string;
}

test('generate takes files and returns text, files, pictures and code, and its session can be continued', async () => {
  const code = 'rows = open("in.csv").read().count("\\n")\nopen("out.txt", "w").write(str(rows))\nprint(rows)';
  models.script(runs(code), { text: 'Two lines.' }, runs('print(rows + 1)'), { text: 'Three.' });
  const files = [
    { name: 'in.csv', text: 'a\n1\n' },
    { name: 'raw.bin', base64: 'AAEC' },
  ];
  const first = await agent.send<Generated>('POST', '/v1/generate', { message: 'How many lines?', files });
  expect(first.body).toMatchObject({
    content: 'Two lines.',
    files: [{ name: 'out.txt', mime: 'text/plain' }],
    code_log: [{ code, output: '2\n' }],
  });
  expect(text(first.body.files[0]?.base64)).toBe('2');
  expect(prompts()).toContain('raw.bin');
  const again = { message: 'And one more?', session: first.body.session };
  expect((await agent.send<Generated>('POST', '/v1/generate', again)).body.code_log).toMatchObject([{ output: '3\n' }]);
});

test('an answer whose code deletes one of its files returns the others', async () => {
  const make = 'for name in ("tmp.csv", "out.txt"): open(name, "w").write("2")';
  models.script(runs(make), runs('import os\nos.remove("tmp.csv")'), { text: 'Done.' });
  const { status, body } = await agent.send<Generated>('POST', '/v1/generate', { message: 'Count.' });
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject({ content: 'Done.', files: [{ name: 'out.txt' }] });
});

test('generate refuses invalid requests with the usual status codes', async () => {
  const post = (body: unknown) => agent.send('POST', '/v1/generate', body);
  expect((await post({ message: '' })).status).toBe(400);
  expect((await post({ message: 'x', files: [{ name: '../up', text: '' }] })).status).toBe(400);
  expect((await post({ message: 'x', session: `chat-${'a'.repeat(26)}` })).status).toBe(404);
  models.script({ status: 400, message: 'no' });
  expect((await post({ message: 'x' })).status).toBeGreaterThanOrEqual(400);
});

const data = 'day,sold\nMon,31337\nTue,4242\n';

interface Plotted {
  image: { mime: string; base64: string };
  chart: { axes: unknown[] } | null;
  code: string;
  text: string;
}

test('a plot is returned with its picture, data and code, and its model gets columns but no rows', async () => {
  models.script(runs(plots), { text: 'Sales by day.' });
  const { status, body } = await agent.send<Plotted>('POST', '/v1/plot', { prompt: 'sales by day', data });
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject({ image: { mime: 'image/png' }, code: plots, text: 'Sales by day.' });
  expect(Buffer.from(body.image.base64, 'base64').subarray(1, 4).toString()).toBe('PNG');
  expect(JSON.stringify(body.chart)).toContain('31337');
  expect(prompts()).toContain('sold (integer)');
  expect(prompts()).not.toContain('31337');
});

test('plot sends rows to the model if requested, returns only the picture by Accept, and leaves no chat', async () => {
  const before = await agent.send<{ items: unknown[] }>('GET', '/v1/chats');
  models.script(runs(plots), { text: 'There.' });
  const rows = [
    { day: 'Mon', sold: 31_337 },
    { day: 'Tue', sold: 4242 },
  ];
  const response = await agent.call('/v1/plot', {
    method: 'POST',
    body: JSON.stringify({ prompt: 'sales', data: rows, shareRows: true }),
    headers: { accept: 'image/png' },
  });
  expect(response.headers.get('content-type')).toBe('image/png');
  expect(
    Buffer.from(await response.arrayBuffer())
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG');
  expect(prompts()).toContain('31337');
  expect((await agent.send<{ items: unknown[] }>('GET', '/v1/chats')).body.items.length).toBe(before.body.items.length);
});

test('plot can return SVG, and is a 502 with the words of the model if nothing was drawn', async () => {
  const svg = `%config InlineBackend.figure_formats = ['svg']\n${plots}`;
  models.script(runs(svg), { text: 'There.' });
  const plot = (format: string) => agent.send<Plotted>('POST', '/v1/plot', { prompt: 'sales', data, format });
  expect(text((await plot('svg')).body.image.base64)).toContain('<svg');
  models.script({ text: 'I would rather not.' });
  const refused = await plot('png');
  expect(refused.status).toBe(502);
  expect(JSON.stringify(refused.body)).toContain('I would rather not.');
});
