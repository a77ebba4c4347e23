import { expect, test } from 'vitest';
import { createCallNames, toKept } from './calls.ts';

const call = (id: string, text = '{}', name = 'run_code') => ({ id, name, arguments: text });

test('plain and unused ids are kept, others are replaced', () => {
  const named = createCallNames([{ role: 'assistant', content: '', calls: [call('old')] }]);
  expect(named(call('call_1')).id).toBe('call_1');
  for (const id of ['call_1', 'old', '', 'a b', 'x'.repeat(65)]) expect(named(call(id)).id).toMatch(/^call_[\w-]{36}$/);
});

test('a kept call has a JSON object and a plain name', () => {
  expect(toKept(call('a', '{"code":"1"}')).arguments).toBe('{"code":"1"}');
  expect(toKept(call('a', 'print(1)')).arguments).toBe('{"text":"print(1)"}');
  expect(toKept(call('a', '[1]')).arguments).toBe('{"text":"[1]"}');
  expect(toKept(call('a', '{}', 'fly away!')).name).toBe('fly_away_');
});
