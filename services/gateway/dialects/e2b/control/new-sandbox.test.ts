import { expect, test } from 'vitest';
import { newSandboxSchema, toCreateBox } from './new-sandbox.ts';

const created = (ask: object, offersInternet = true) =>
  toCreateBox(newSandboxSchema.parse({ templateID: 'base', ...ask }), { seconds: 300, offersInternet, keyId: 'k' });

test('a wish for the internet is fulfilled where boxes can have it, and no wish means the template', () => {
  expect(created({ allow_internet_access: true }).network).toBe('internet');
  expect(created({ allow_internet_access: false }).network).toBe('none');
  expect(created({})).not.toHaveProperty('network');
  expect(created({ allow_internet_access: true }, false)).not.toHaveProperty('network');
  expect(created({ allow_internet_access: false }, false).network).toBe('none');
  expect(created({ network: { denyOut: ['0.0.0.0/0'] }, allow_internet_access: true }).network).toBe('none');
});

test('all traffic that is permitted by name is the internet, whatever is denied, also where the box is refused for it', () => {
  for (const offersInternet of [true, false])
    expect(created({ network: { allowOut: ['0.0.0.0/0'], denyOut: ['::/0'] } }, offersInternet).network).toBe(
      'internet',
    );
  expect(created({ network: { allowOut: [] } })).not.toHaveProperty('network');
});

test('ranges that no sandbox reaches can be denied, and change nothing', () => {
  const deny = (...denyOut: string[]) => ({ allow_internet_access: true, network: { denyOut } });
  expect(created(deny('10.0.0.0/8', '192.168.1.0/24', '169.254.169.254', '172.31.0.0/16')).network).toBe('internet');
  expect(created(deny('10.0.0.0/8', '0.0.0.0/0')).network).toBe('none');
  for (const other of [
    '8.8.8.8',
    '10.0.0.0/7',
    '172.32.0.0/16',
    '10.0.0.0/33',
    '10.0.0.0/8/8',
    '10.1',
    'fc00::/7',
    'example.com',
  ])
    expect(() => created(deny('10.0.0.0/8', other)), other).toThrow('is not supported');
});

test('a sandbox that pauses itself keeps its memory only if that is asked for', () => {
  const resumes = { autoPause: true, autoResume: { enabled: true } };
  expect(created(resumes)).toMatchObject({ onIdle: 'hibernate', idleSeconds: 300 });
  expect(created({ ...resumes, autoPauseMemory: false })).toMatchObject({ onIdle: 'hibernate' });
  expect(created({ ...resumes, autoPauseMemory: true })).toMatchObject({ onIdle: 'pause' });
  expect(created({ autoResume: { enabled: false } })).toMatchObject({ onIdle: 'delete', maxLifetimeSeconds: 300 });
});
