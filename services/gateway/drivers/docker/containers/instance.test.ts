import type { ContainerInspectInfo } from 'dockerode';
import { expect, test } from 'vitest';
import { inspectedInstance } from './instance.ts';

const whyEnded = (ExitCode: number, OOMKilled: boolean) => {
  const State = { Status: 'exited', ExitCode, OOMKilled, Error: '' };
  const found = { State, Config: { Labels: { 'codebox.instance': 'one' } } };
  return inspectedInstance(found as unknown as ContainerInspectInfo, () => 'address').why;
};

test.each([
  ['its memory limit', 137, true, { code: 'oom' }],
  ['its memory limit, with gVisor', 128, true, { code: 'oom' }],
  ['itself, after another process met the limit', 1, true, { code: 'exit', detail: 'exit code 1' }],
  ['a signal', 137, false, { code: 'exit', detail: 'SIGKILL' }],
  ['an unknown end', 128, false, { code: 'exit', detail: 'exit code 128' }],
])('a container that was ended by %s is reported so', (_, code, isOom, why) => {
  expect(whyEnded(code, isOom)).toMatchObject(why);
});
