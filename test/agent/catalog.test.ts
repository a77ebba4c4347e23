import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createCatalog } from '../../services/agent/models/catalog.ts';
import type { LanguageModel } from '../../services/agent/models/model.ts';
import { modelVariables, toModelSettings } from '../../services/agent/models/settings.ts';
import { refusal } from '../api/harness.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';

const never = new AbortController().signal;
const catalogOf = (env: Record<string, string>) => createCatalog(toModelSettings(z.object(modelVariables).parse(env)));

const complete = async (model: LanguageModel, content = 'Hello?'): Promise<string> => {
  const tools = [
    {
      name: 'run_code',
      description: '',
      parameters: { type: 'object', properties: { language: { enum: ['python'] } } },
    },
  ];
  let text = '';
  const request = { messages: [{ role: 'user' as const, content }], tools, mayCall: true, signal: never };
  for await (const event of model.ask(request)) {
    if (event.type === 'text') text += event.text;
    if (event.type === 'call') text += event.call.arguments;
  }
  return text;
};

/** A model server that counts requests, records their keys, and can fail. */
const startLister = async () => {
  const state = { requests: 0, status: 200, keys: [] as string[] };
  const server = createServer((req, res) => {
    state.requests += 1;
    state.keys.push(String(req.headers.authorization ?? req.headers['x-api-key']));
    res.writeHead(state.status, { 'content-type': 'application/json' });
    const names = ['gpt-5', 'gpt-image-1', 'text-embedding-3-large', 'llama3'];
    const data = names.map((id) => ({ id, object: 'model', created: 1_700_000_000, owned_by: 'x' }));
    res.end(JSON.stringify(state.status === 200 ? { object: 'list', data } : { error: { message: 'no' } }));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return {
    state,
    url: `http://127.0.0.1:${port}/v1`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

describe('the model catalog', () => {
  let lister: Awaited<ReturnType<typeof startLister>>;
  let server: ModelServer;
  beforeAll(async () => {
    [lister, server] = await Promise.all([startLister(), startModelServer()]);
  });
  beforeEach(() => {
    Object.assign(lister.state, { requests: 0, status: 200, keys: [] });
  });
  afterAll(async () => {
    lister?.close();
    await server?.[Symbol.asyncDispose]();
  });

  test('without settings it names those to make, and lists models that need a key', async () => {
    const catalog = catalogOf({});
    expect(catalog.hint()).toMatch(/OPENAI_API_KEY.*ANTHROPIC_API_KEY.*CODEBOX_MODEL_URL/s);
    const models = await catalog.list(never);
    expect(models.map(({ id, needsKey, isDefault }) => [id, needsKey, isDefault])).toEqual([
      ['openai/gpt-5', true, false],
      ['anthropic/claude-sonnet-4-5', true, false],
    ]);
    expect(await refusal(catalog.open(null))).toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/model' }],
    });
    expect(await refusal(catalog.open('anthropic/x'))).toMatchObject({
      message: expect.stringContaining('ANTHROPIC_API_KEY'),
      errors: [{ pointer: '/headers/X-Model-Key' }],
    });
  });

  test('lists the models of a server, fetched once a minute, without secrets', async () => {
    const catalog = catalogOf({ CODEBOX_MODEL_URL: lister.url, CODEBOX_MODEL_KEY: 'own-key-123' });
    expect(catalog.hint()).toBeNull();
    const [first, again] = [await catalog.list(never), await catalog.list(never)];
    expect(lister.state).toMatchObject({ requests: 1, keys: ['Bearer own-key-123'] });
    expect(again).toEqual(first);
    expect(first[0]).toEqual({
      id: 'compatible/gpt-5',
      object: 'model',
      owned_by: 'compatible',
      created: 1_700_000_000,
      needsKey: false,
      isDefault: true,
    });
    expect(first.length).toBe(4);
    expect(JSON.stringify(first)).not.toContain('own-key');
    expect((await catalog.open(null)).id).toBe('compatible/gpt-5');
  });

  test('omits a failing provider, and lists the others', async () => {
    lister.state.status = 500;
    const env = { CODEBOX_MODEL_URL: lister.url, AZURE_OPENAI_ENDPOINT: lister.url, AZURE_OPENAI_API_KEY: 'a' };
    const models = await catalogOf({ ...env, AZURE_OPENAI_DEPLOYMENTS: 'one, two' }).list(never);
    expect(models.map(({ id }) => id)).toEqual(['azure/one', 'azure/two']);
  });

  test('lists exactly the configured models', async () => {
    const catalog = catalogOf({
      CODEBOX_MODEL_URL: lister.url,
      CODEBOX_MODELS: 'openai/gpt-5, compatible/llama3:no-tools',
    });
    const models = await catalog.list(never);
    expect(models.map(({ id, needsKey, isDefault }) => [id, needsKey, isDefault])).toEqual([
      ['compatible/llama3', false, true],
      ['openai/gpt-5', true, false],
    ]);
    expect(lister.state.requests).toBe(0);
    expect((await catalog.open('compatible/llama3')).takesTools).toBe(false);
    for (const id of ['compatible/other', 'nobody/x', 'gpt-5', '', 'openai/']) {
      const error = await refusal(catalog.open(id));
      expect([error.code, error.errors[0]?.pointer]).toEqual(['invalid_request', '/model']);
    }
  });

  test('uses the configured default if no model is named', async () => {
    const catalog = catalogOf({ OPENAI_API_KEY: 'a', CODEBOX_MODEL: 'openai/o3' });
    expect((await catalog.open(null)).id).toBe('openai/o3');
  });

  test('uses the key of a request for that request alone', async () => {
    const catalog = catalogOf({ OPENAI_API_KEY: 'shared-key', OPENAI_BASE_URL: `${lister.url}` });
    const own = await catalog.open('openai/x', 'key-of-one-reader');
    const shared = await catalog.open('openai/x');
    expect(await catalog.open('openai/x')).toBe(shared);
    expect(await catalog.open('openai/x', 'key-of-one-reader')).not.toBe(own);
    lister.state.status = 401;
    for (const model of [own, shared]) await refusal(complete(model));
    expect(lister.state.keys).toEqual(['Bearer key-of-one-reader', 'Bearer shared-key']);
  });

  test('reaches Azure deployments by their own paths', async () => {
    const paths: string[] = [];
    const azure = createServer((req, res) => {
      paths.push(`${req.url} ${req.headers['api-key']}`);
      res.writeHead(404, { 'content-type': 'application/json' }).end('{}');
    });
    await new Promise<void>((listening) => azure.listen(0, '127.0.0.1', listening));
    const { port } = azure.address() as AddressInfo;
    const catalog = catalogOf({
      AZURE_OPENAI_ENDPOINT: `http://127.0.0.1:${port}`,
      AZURE_OPENAI_API_KEY: 'azure-key',
      AZURE_OPENAI_DEPLOYMENTS: 'mine',
    });
    await refusal(complete(await catalog.open(null)));
    azure.close();
    expect(paths).toEqual(['/openai/deployments/mine/chat/completions?api-version=2024-10-21 azure-key']);
  });

  test('retries a model that refuses tools without them, and remembers that', async () => {
    server.script(
      { status: 400, message: 'registry.ollama.ai/library/gemma does not support tools' },
      { text: '```python\n1\n```' },
      { text: 'It is 1.' },
    );
    const model = await catalogOf({ CODEBOX_MODEL_URL: `${server.url}/v1` }).open('compatible/gemma');
    expect(JSON.parse(await complete(model))).toEqual({ language: 'python', code: '1' });
    expect(await complete(model)).toBe('It is 1.');
    expect(server.requests.map(({ tools }) => tools !== undefined)).toEqual([true, false, false]);
  });

  test('retries a server that refuses stream_options without them, and remembers that', async () => {
    const refused = { status: 400, message: 'Unrecognized request argument supplied: stream_options' };
    server.script(refused, { text: 'Here I am.' }, { text: 'Still here.' });
    const model = await catalogOf({ CODEBOX_MODEL_URL: `${server.url}/v1` }).open('compatible/old');
    expect([await complete(model), await complete(model)]).toEqual(['Here I am.', 'Still here.']);
    expect(server.requests.map(({ stream_options }) => stream_options !== undefined)).toEqual([true, false, false]);
  });

  test('passes on the tool calls of a compatible server', async () => {
    server.script(runs('1'));
    const model = await catalogOf({ CODEBOX_MODEL_URL: `${server.url}/v1/` }).open('compatible/qwen');
    expect(JSON.parse(await complete(model))).toEqual({ language: 'python', code: '1' });
  });

  test.each([
    ['CODEBOX_MODELS', 'gpt-5'],
    ['CODEBOX_MODEL', 'nobody/x'],
    ['CODEBOX_MODEL_URL', 'ftp://x'],
    ['CODEBOX_MODEL_SILENCE_SECONDS', '0'],
  ])('%s=%s is refused', (name, value) => {
    expect(z.object(modelVariables).safeParse({ [name]: value }).success).toBe(false);
  });
});
