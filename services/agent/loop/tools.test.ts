import { expect, test } from 'vitest';
import { readTask, toolsOf } from './tools.ts';

const languages = ['python', 'javascript', 'bash'];
const read = (name: string, text: string) => readTask({ id: 'call_1', name, arguments: text }, languages);

test.each([
  ['run_code', '{"code":"1"}', 'python'],
  ['python', '{"code":"1"}', 'python'],
  ['functions.run_code', '{"code":"1","language":"js"}', 'javascript'],
  ['bash', '{"command":"1"}', 'bash'],
  ['execute_code', '{"code":"1","language":"Python3"}', 'python'],
])('%s with %s runs %s', (name, text, language) => {
  expect(read(name, text)).toMatchObject({ task: { name: 'run_code', arguments: { code: '1', language } } });
});

test.each([
  ['a language that the box lacks', 'run_code', '{"code":"1","language":"cobol"}', 'use python, javascript, bash'],
  ['an unknown tool', 'fly', '{}', 'There is no tool fly'],
  ['a tool with the name of a property of all objects', 'constructor', '{}', 'There is no tool constructor'],
  ['no path', 'read_file', '{}', 'path'],
])('%s is refused', (_what, name, text, fault) => {
  expect(read(name, text)).toEqual({ fault: expect.stringContaining(fault) });
});

test('one package is accepted as a list of one', () => {
  const task = { name: 'install_packages', arguments: { packages: ['cowsay'], manager: 'pip' } };
  expect(read('pip_install', '{"package":"cowsay"}')).toMatchObject({ task });
  expect(read('install_packages', '{"packages":["cowsay"]}')).toMatchObject({ task });
});

test('the tools offer the languages of the box', () => {
  const limits = { cpus: 1, memoryMb: 1, diskMb: 1, pids: 1 };
  const tools = toolsOf({ template: 'x', languages, limits, hasNetwork: true, packages: [], executionSeconds: 60 });
  expect(tools.map(({ name }) => name)).toEqual([
    'run_code',
    'install_packages',
    'list_files',
    'read_file',
    'write_file',
  ]);
  expect(tools[0]?.parameters).toMatchObject({ properties: { language: { enum: languages } }, required: ['code'] });
});
