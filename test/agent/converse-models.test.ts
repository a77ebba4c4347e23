import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { createFencedModel } from '../../services/agent/models/fenced.ts';
import type { LanguageModel, ModelMessage } from '../../services/agent/models/model.ts';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { askQuestion, limits, modelAt, modelKey, notices, results } from './ask-question.ts';
import { type ModelServer, type Reply, runs, startModelServer, wires } from './model-server.ts';

const calls = (name: string, text: string): Reply => ({ calls: [{ name, arguments: text }] });

describe.each(anyDriver)('models and their faults, with boxes of the %s driver', (driver) => {
  let gateway: RunningGateway;
  let server: ModelServer;
  let box: Box;
  beforeAll(async () => {
    [gateway, server] = await Promise.all([startGateway(driver), startModelServer()]);
    box = await gateway.createBox();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  describe.each(wires)('over the wire of %s', (wire) => {
    let model: LanguageModel;
    beforeAll(() => {
      model = modelAt(server, wire);
    });

    test.each<[string, Reply[]]>([
      ['is overloaded', [{ status: 429, retryAfter: 1 }]],
      ['fails twice', [{ status: 500 }, { status: 503 }]],
      ['cuts the connection before any text', [{ fault: 'cut', text: '' }]],
    ])('a model that %s is retried', async (_what, faults) => {
      server.script(...faults, { text: 'Here I am.' });
      const answer = await askQuestion({ gateway, box, model }, 'Hello?');
      expect(answer).toMatchObject({ status: 'ok', rounds: 1, text: 'Here I am.' });
      expect(server.requestCount()).toBe(faults.length + 1);
    });

    test.each<[string, Reply, string, number]>([
      ['keeps failing', { status: 500 }, 'unavailable', 3],
      ['asks for a long delay', { status: 429, retryAfter: 600 }, 'too_many_requests', 1],
      ['refuses the key', { status: 401, message: `Incorrect API key provided: ${modelKey}.` }, 'unauthorized', 1],
      ['refuses the request', { status: 400, message: `No such thing for ${modelKey}.` }, 'invalid_request', 1],
      ['refuses the length', { status: 400, message: 'prompt is too long: 9 > 8' }, 'too_large', 1],
    ])('the error of a model that %s is reported without its key', async (_what, reply, code, attempts) => {
      server.script(reply, reply, reply, reply);
      const answer = await askQuestion({ gateway, box, model }, 'Hello?');
      expect(answer).toMatchObject({ status: 'error', error: { code }, messages: [] });
      expect(answer.error?.detail).not.toContain('0123456789');
      expect(server.requestCount()).toBe(attempts);
    });

    test.each<[string, Reply]>([
      ['is cut off', { fault: 'cut', text: 'Half of' }],
      ['ends without an end marker', { fault: 'unfinished', text: 'Half of' }],
    ])('an answer that %s is reported as incomplete, and its text is kept', async (_what, fault) => {
      server.script(fault, { text: 'never' });
      const answer = await askQuestion({ gateway, box, model }, 'Hello?');
      expect(answer).toMatchObject({ status: 'error', error: { code: 'bad_gateway' }, text: 'Half of' });
      expect(answer.messages).toEqual([{ role: 'assistant', content: 'Half of', calls: [] }]);
      expect(server.requestCount()).toBe(1);
    });

    test('a silent model times out', async () => {
      server.script({ fault: 'hang' }, { fault: 'hang' }, { fault: 'hang' });
      const answer = await askQuestion({ gateway, box, model: modelAt(server, wire, 1) }, 'Hello?');
      expect(answer).toMatchObject({ status: 'error', error: { code: 'unavailable' } });
      expect(answer.error?.detail).toContain('sent nothing for 1 seconds');
    });

    test('stopping ends the wait for a model', async () => {
      server.script({ fault: 'hang' });
      const answer = await askQuestion({ gateway, box, model }, 'Hello?', { signal: AbortSignal.timeout(300) });
      expect(answer).toMatchObject({ status: 'stopped', messages: [], error: null });
    });

    test('a call that was cut off by the length limit is not run', async () => {
      const cut = { ...runs('open("half", "w")'), finishReason: 'length' as const };
      server.script(cut, { text: 'Sorry.' });
      const answer = await askQuestion({ gateway, box, model }, 'Write.');
      expect(results(answer)).toEqual([expect.stringContaining('cut off')]);
      expect((await gateway.run(box.id, 'open("half")')).error?.name).toBe('FileNotFoundError');
    });

    test('a long conversation is sent to the model without its oldest part, and with calls and results together', async () => {
      const earlier = Array.from({ length: 40 }, (_, turn): ModelMessage[] => [
        { role: 'user', content: `Question ${turn}: ${'why '.repeat(50)}` },
        { role: 'assistant', content: '', calls: [{ id: `old_${turn}`, name: 'run_code', arguments: '{"code":"1"}' }] },
        { role: 'tool', call: `old_${turn}`, content: `Result ${turn}: ${'word '.repeat(1000)}` },
        { role: 'assistant', content: `Answer ${turn}`, calls: [] },
      ]).flat();
      server.script({ text: 'Because.' });
      const answer = await askQuestion({ gateway, box, model }, 'Why?', {
        messages: [...earlier, { role: 'user', content: 'Why?' }],
        limits: { ...limits, historyTokens: 4000 },
      });
      expect(answer.status).toBe('ok');
      const sent = server.requests[0]?.messages ?? [];
      const text = JSON.stringify(sent);
      expect(text.length).toBeLessThan(30_000);
      expect(text).toContain('Why?');
      expect(text).toContain('Answer 39');
      expect(text).not.toContain('Question 0:');
      const called = sent.flatMap((message) => message.tool_calls?.map(({ id }) => id) ?? []);
      expect(sent.flatMap((message) => message.tool_call_id ?? [])).toEqual(called);
      expect(called.length).toBeGreaterThan(0);
    });

    test('a model without tools runs its fenced code, and the text that it makes up after it is not shown', async () => {
      const text = 'Let me see.\n\n```python\nprint(6 * 7)\n```\n\nIt printed 43.';
      server.script({ text }, { text: 'It is 42:\n```text\n42\n```\n' });
      const answer = await askQuestion({ gateway, box, model: createFencedModel(model) }, 'What is 6 times 7?');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2 });
      expect(answer.text).toBe('Let me see.\n\nIt is 42:\n```text\n42\n```\n');
      expect(results(answer)).toEqual(['42']);
      const [first, second] = server.requests;
      expect(first?.tools ?? []).toEqual([]);
      expect(second?.messages.at(-1)).toMatchObject({ role: 'user', content: expect.stringContaining('42') });
      expect(JSON.stringify(second?.messages)).not.toContain('43');
    });
  });

  describe('arguments of calls', () => {
    let model: LanguageModel;
    beforeAll(() => {
      model = modelAt(server, 'openai');
    });

    test.each([
      ['a comma too many', calls('run_code', '{"code": "print(6*7)",}')],
      ['line breaks in a string', calls('run_code', '{"code": "x = 6\nprint(x*7)"}')],
      ['single quotes', calls('run_code', "{'code': 'print(6*7)'}")],
      ['the code itself', calls('python', 'print(6*7)')],
    ])('arguments with %s are repaired', async (_what, reply) => {
      server.script(reply, { text: 'It is 42.' });
      const answer = await askQuestion({ gateway, box, model }, 'What is 6 times 7?');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2 });
      expect(results(answer)).toEqual(['42']);
      expect(notices(answer, 'repaired').length).toBe(1);
    });

    test('unreadable arguments are refused with their fault', async () => {
      server.script(calls('run_code', '{"code": "print(1)'), calls('run_code', '{}'), calls('fly', '{}'), {
        text: 'Sorry.',
      });
      const answer = await askQuestion({ gateway, box, model }, 'Go.');
      expect(answer).toMatchObject({ status: 'ok', rounds: 4 });
      const [cut, empty, unknown] = results(answer);
      expect(cut).toContain('The arguments of run_code cannot be read.');
      expect(empty).toContain('code');
      expect(unknown).toContain('There is no tool fly');
      for (const message of answer.messages)
        if (message.role === 'assistant')
          for (const call of message.calls) expect(JSON.parse(call.arguments)).toBeTypeOf('object');
    });
  });
});
