import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
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

const prompts = () => JSON.stringify(models.requests.map(({ messages }) => messages));

const page = (user: string) => {
  const headers = { 'x-codebox-user': user };
  return {
    post: (path: string, body: unknown) => agent.send(`POST`, `/gpt-code-ui${path}`, body, headers),
    call: (path: string, init: RequestInit = {}) => agent.call(`/gpt-code-ui${path}`, { ...init, headers }),
    /** Polls, as the page does, until the results match. */
    async results(until: RegExp): Promise<{ type: string; value: string }[]> {
      const all: { type: string; value: string }[] = [];
      await eventually(async () => {
        const polled = await agent.send<{ results: typeof all }>('GET', '/gpt-code-ui/api/api', undefined, headers);
        all.push(...polled.body.results);
        return until.test(all.map(({ value }) => value).join('\n'));
      });
      return all;
    },
  };
};

test('gpt-code-ui: code is returned first, runs when it is sent back, and its answer then continues', async () => {
  const ada = page('ada');
  const form = new FormData();
  form.set('file', new File(['a,b\n1,2\n'], 'in.csv'));
  const uploaded = await (await ada.call('/upload', { method: 'POST', body: form })).text();
  expect(JSON.parse(uploaded).message).toMatch(
    /^File in\.csv uploaded successfully\.\nThe file contains the following columns: a/,
  );
  expect((await ada.post('/inject-context', { prompt: 'It is about cats.' })).body).toEqual({ result: 'success' });

  const code =
    'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nopen("out.txt", "w").write("x")\nprint("drawn")';
  models.script(runs(code, 'python', 'I plot it.'), runs('print("more")'), { text: 'That is it.' });
  const generated = await ada.post('/generate', { prompt: 'Plot it', model: 'openai/gpt-5' });
  expect(generated.body).toEqual({ code, text: 'I plot it.' });
  expect(prompts()).toContain('It is about cats.');
  expect((await ada.post('/api/api', { command: code })).body).toEqual({ result: 'success' });
  const results = await ada.results(/That is it\./);
  expect(results[0]?.value).toBe('Kernel is ready.');
  const values = results.map(({ value }) => value).join('\n');
  expect(values).toMatch(/drawn[\s\S]*more[\s\S]*That is it\./);
  const picture = results.find(({ type }) => type === 'image/png');
  expect(
    Buffer.from(picture?.value ?? '', 'base64')
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG');
  expect(values).toContain('/gpt-code-ui/download?file=out.txt');
  expect(await (await ada.call('/download?file=out.txt')).text()).toBe('x');
});

test('gpt-code-ui: each user has a separate kernel, files and results', async () => {
  const [bob, eve] = [page('bob'), page('eve')];
  await bob.post('/api/api', { command: 'secret = 7\nopen("bob.txt", "w").write("7")\nprint("bob has", secret)' });
  await bob.results(/bob has 7/);
  await eve.post('/api/api', { command: 'print("secret" in globals())' });
  const results = await eve.results(/False/);
  expect(JSON.stringify(results)).not.toContain('bob');
  expect((await eve.call('/download?file=bob.txt')).status).toBe(404);
  await bob.post('/api/restart', {});
  await bob.post('/api/api', { command: 'print("secret" in globals())' });
  await bob.results(/False/);
});

test('gpt-code-ui: silent code is reported, other code ends a waiting answer, and a model failure is a 500', async () => {
  const dan = page('dan');
  models.script(runs('print("never")'), { text: 'never' });
  expect((await dan.post('/generate', { prompt: 'Go' })).body.code).toBe('print("never")');
  await dan.post('/api/api', { command: 'x = 1' });
  expect(JSON.stringify(await dan.results(/There is no output/))).not.toContain('never');
  models.script({ status: 400, message: 'no' });
  const failed = await dan.post('/generate', { prompt: 'Go' });
  expect(failed.status).toBe(500);
  expect(failed.body).toMatchObject({ code: null, text: expect.stringContaining('Error from API: ') });
  expect((await dan.call('/models')).status).toBe(200);
});

test('gpt-code-ui: of two prompts at once the last one is answered, and the other one is stopped', async () => {
  const fay = page('fay');
  models.script(runs('print("either")'), runs('print("or")'));
  const [first, second] = await Promise.all([
    fay.post('/generate', { prompt: 'One' }),
    fay.post('/generate', { prompt: 'Two' }),
  ]);
  expect([first.status, second.status]).toEqual([200, 200]);
  expect([first.body.code, second.body.code].filter((code) => code !== null)).toHaveLength(1);
  expect((await fay.post('/api/api', { command: 'print("used", 40 + 2)' })).status).toBe(200);
  expect(JSON.stringify(await fay.results(/used 42/))).not.toMatch(/either|or\b/);
});
