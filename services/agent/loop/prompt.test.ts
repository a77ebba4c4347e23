import { expect, test } from 'vitest';
import { promptOf } from './prompt.ts';
import type { Facts } from './workspace.ts';

const facts: Facts = {
  template: 'default',
  languages: ['python', 'bash'],
  limits: { cpus: 2, memoryMb: 1024, diskMb: 2048, pids: 256 },
  hasNetwork: false,
  packages: ['pandas 3.1.1', 'matplotlib 3.11.0'],
  executionSeconds: 120,
};

test('the prompt states the facts', () => {
  const prompt = promptOf(facts, ['The files of before are gone.']);
  for (const fact of ['python, bash', '2 CPUs', '1024 MiB of memory', 'pandas 3.1.1, matplotlib 3.11.0', '120 seconds'])
    expect(prompt).toContain(fact);
  expect(prompt).toContain('no network');
  expect(prompt).toContain('sandbox:/mnt/data/');
  expect(prompt.endsWith('The files of before are gone.')).toBe(true);
});

test('the prompt promises no unknown packages, and a network only where there is one', () => {
  const prompt = promptOf({ ...facts, packages: [], hasNetwork: true }, []);
  expect(prompt).not.toContain('Installed among others');
  expect(prompt).toContain('reaches the internet');
});
