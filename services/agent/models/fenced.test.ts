import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { createWillingModel } from './fenced.ts';
import type { LanguageModel, ModelRequest } from './model.ts';

const request: ModelRequest = {
  messages: [{ role: 'user', content: 'Compute.' }],
  tools: [{ name: 'run_code', description: 'Runs code.', parameters: { type: 'object', properties: {} } }],
  mayCall: true,
  signal: new AbortController().signal,
};

test('a model that refuses tools is called without them, and with them again after ten minutes', async () => {
  const toolCounts: number[] = [];
  const refusing: LanguageModel = {
    id: 'compatible/x',
    takesTools: true,
    async *ask({ tools }) {
      toolCounts.push(tools.length);
      if (tools.length > 0) throw new CodeBoxError('invalid_request', 'x does not support tools');
      yield { type: 'text', text: 'Four.' };
      yield { type: 'end', reason: 'stop' };
    },
  };
  let now = 0;
  const model = createWillingModel(refusing, () => now);
  for (const at of [0, 1, 599_999, 600_001]) {
    now = at;
    await Array.fromAsync(model.ask(request));
  }
  expect(toolCounts).toEqual([1, 0, 0, 0, 1, 0]);
});
