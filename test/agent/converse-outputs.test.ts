import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, createClient } from '#contract';
import { createBoxWorkspace } from '../../services/agent/box/box-workspace.ts';
import { createFacts } from '../../services/agent/box/facts.ts';
import { converse } from '../../services/agent/loop/converse.ts';
import type { LanguageModel } from '../../services/agent/models/model.ts';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { askQuestion, limits, modelAt, results } from './ask-question.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';

describe.each(anyDriver)('the result of a run that a model gets, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let server: ModelServer;
  let model: LanguageModel;
  let box: Box;
  beforeAll(async () => {
    [gateway, server] = await Promise.all([startGateway(driver), startModelServer()]);
    model = modelAt(server, 'openai');
    box = await gateway.createBox();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  const resultOf = async (code: string, language = 'python'): Promise<string> => {
    server.script(runs(code, language), { text: 'Done.' });
    const answer = await askQuestion({ gateway, box, model }, 'Go.');
    expect(answer).toMatchObject({ status: 'ok', rounds: 2 });
    return results(answer)[0] ?? '';
  };

  test('has the head and tail of a long output, the number of omitted bytes, and a file with all of it', async () => {
    const code = 'print("head")\nfor i in range(20000): print(i, "ä")\nprint("tail")';
    const result = await resultOf(code);
    expect(result.length).toBeLessThan(limits.outputCharacters + 500);
    expect(result).toMatch(/^head\n0 ä\n/);
    expect(result).toContain('\ntail\n');
    expect(result).toMatch(/\[… \d+ of 168899 bytes are left out here …\]/);
    const path = /\/mnt\/data\/(\.codebox\/outputs\/\S+\.txt)/.exec(result)?.[1] ?? '';
    expect(await gateway.client.files.readText(box.id, path)).toHaveLength(148_900);
    expect(result).not.toContain('[Files');
    expect(await resultOf('print(1)')).toBe('1');
  });

  test('has a part of 50 MB of output, in bounded memory', async () => {
    server.script(runs('for i in range(500): print("x" * 100_000)'), { text: 'Done.' });
    const workspace = createBoxWorkspace({ client: gateway.client, tenant: 'default', box, facts: createFacts() });
    let seen = 0;
    let most = 0;
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    const outcome = await converse({
      model,
      workspace,
      messages: [{ role: 'user', content: 'Print.' }],
      notes: [],
      approve: undefined,
      limits,
      signal: new AbortController().signal,
      onEvent: (event) => {
        if (event.type === 'output' && event.event.type === 'stdout') seen += event.event.text.length;
        most = Math.max(most, process.memoryUsage().rss - before);
      },
    });
    const [result = ''] = results(outcome);
    expect(outcome.status).toBe('ok');
    expect(seen).toBeGreaterThan(1_000_000);
    expect(result.length).toBeLessThan(limits.outputCharacters + 1000);
    expect(result).toMatch(/^x{1000}/);
    expect(result).toMatch(/\[… \d+ of \d+ bytes are left out here …\]/);
    expect(most).toBeLessThan(200_000_000);
  });

  test('advises silent code to print', async () => {
    expect(await resultOf('x = 1')).toBe('It printed nothing: print what you want to see.');
  });

  test('has tables and values as text, and the number of figures shown to the reader', async () => {
    const result = await resultOf(`import pandas as pd, matplotlib.pyplot as plt
from IPython.display import HTML, display
display(pd.DataFrame({'a': [1, 2]})); display(HTML('<b>bold</b>'))
plt.plot([1, 2]); plt.show(); plt.plot([2, 1]); plt.show()
{'answer': 42}`);
    expect(result).toContain('   a\n0  1\n1  2\n');
    expect(result).toContain("{'answer': 42}");
    expect(result).toContain('[2 figures were shown to the reader.]');
    expect(result).not.toContain('Figure size');
  });

  test('has the last of overwritten lines', async () => {
    expect(await resultOf("for i in range(100): print(f'\\r{i} %', end='')\nprint()")).toBe('99 %');
  });

  test('explains that input cannot be typed', async () => {
    const result = await resultOf('name = input("Who? ")');
    expect(result).toContain('nobody can type here');
  });

  test('reports lost variables', async () => {
    const result = await resultOf('import os\nos._exit(3)');
    expect(result).toContain('All variables and imports of this language are gone');
  });

  test('reports that code was ended by its time limit', async () => {
    const workspace = createBoxWorkspace({
      client: gateway.client,
      tenant: 'default',
      box,
      facts: createFacts(),
      executionSeconds: 1,
    });
    server.script(runs('import time\ntime.sleep(60)'), { text: 'Done.' });
    const answer = await askQuestion({ gateway, box, model }, 'Go.', { workspace });
    expect(results(answer)[0]).toContain('It ended with timeout');
  });

  test('reports at once a module that a box without network cannot install', async () => {
    expect(await resultOf('import cowsay')).toContain('no network');
    const late = await resultOf('print(1)\nimport cowsay');
    expect(late).toMatch(/^1\n/);
    expect(late).toContain('do it without cowsay');
  });

  test('has the same form for bash and JavaScript', async () => {
    expect(await resultOf('echo $((6 * 7)); ls /nowhere', 'bash')).toContain('42\n');
    expect(await resultOf('6 * 7', 'javascript')).toBe('42');
    expect(await resultOf('nowhere()', 'js')).toContain('ReferenceError: nowhere is not defined');
  });

  test('the system prompt describes the box by its actual facts', async () => {
    await resultOf('1');
    const [{ content } = { content: '' }] = server.requests[0]?.messages ?? [];
    expect(content).toContain('It runs python, javascript, typescript, bash');
    expect(content).toContain('pandas 2.3.3');
    expect(content).toContain('It has no network');
    expect(content).toContain(`${box.limits.memoryMb} MiB of memory`);
  });

  test('the package list of the box of one tenant is not reused for another tenant', async () => {
    const requests: string[] = [];
    const { url, key } = gateway;
    const client = createClient({
      url,
      key,
      fetch: (input, init) => {
        requests.push(new URL(String(input)).pathname);
        return fetch(input, init);
      },
    });
    const facts = createFacts();
    const isFetched = async (tenant: string) => {
      requests.length = 0;
      const workspace = createBoxWorkspace({ client, tenant, box, facts });
      expect((await workspace.facts(AbortSignal.timeout(60_000))).packages).toContain('pandas 2.3.3');
      return requests.some((path) => path.endsWith('/packages'));
    };
    expect([await isFetched('ada'), await isFetched('ada'), await isFetched('eve')]).toEqual([true, false, true]);
  });
});
