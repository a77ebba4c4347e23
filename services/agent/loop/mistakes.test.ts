import { expect, test } from 'vitest';
import { createMistakes } from './mistakes.ts';

const error = (name: string, value: string, line: number) => ({
  name,
  value,
  traceback: [`Cell In[${line}], line ${line}`, `\u001b[31m${name}\u001b[39m: ${value}`],
});

test('the same mistake is recognized in other code, and different mistakes are distinguished', () => {
  const mistakes = createMistakes();
  expect(mistakes.noteError(error('NameError', "name 'x' is not defined", 1))).toBe(1);
  expect(mistakes.noteError(error('NameError', "name 'y' is not defined", 1))).toBe(1);
  expect(mistakes.noteError(error('NameError', "name 'x' is not defined", 7))).toBe(2);
  expect(mistakes.noteError(error('TypeError', '<object at 0x7f12> is no number', 1))).toBe(1);
  expect(mistakes.noteError(error('TypeError', '<object at 0x7f99> is no number', 2))).toBe(2);
  expect(mistakes.noteFault('There is no tool fly.')).toBe(1);
  expect(mistakes.noteFault('There is no tool fly.')).toBe(2);
});
