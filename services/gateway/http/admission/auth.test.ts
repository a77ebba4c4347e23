import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { keyId, makeKey } from './auth.ts';
import { createKeyCheck } from './key-check.ts';

test('a key names its id, and only its hash needs to be kept', () => {
  const { key, id, hash } = makeKey();
  expect(keyId(key)).toBe(id);
  expect(hash).toBe(createHash('sha256').update(key).digest('hex'));
  expect(hash).not.toContain(key);
});

test('a mistyped key is known by its checksum', () => {
  const { key } = makeKey();
  const at = 20;
  const other = key[at] === 'a' ? 'b' : 'a';
  expect(keyId(key.slice(0, at) + other + key.slice(at + 1))).toBeUndefined();
  expect(keyId(`${key}x`)).toBeUndefined();
  expect(keyId('')).toBeUndefined();
});

test('keys do not repeat', () => {
  const keys = Array.from({ length: 1000 }, () => makeKey().key);
  expect(new Set(keys).size).toBe(1000);
});

test('a key counts only with the secret that is kept, also while its id is remembered', async () => {
  const rights = { tenantId: 't', scopes: null, isSuspended: false, quotas: null };
  const [made, forged] = [makeKey(), makeKey()];
  const kept = new Map([made, { ...forged, hash: made.hash }].map(({ id, hash }) => [id, { hash, ...rights }]));
  const keys = createKeyCheck(async (id) => kept.get(id));
  for (const _ of [1, 2]) {
    expect(await keys.callerOf(made.key)).toEqual({ ...rights, keyId: made.id });
    expect(await keys.callerOf(forged.key)).toBeUndefined();
    expect(await keys.callerOf(makeKey().key)).toBeUndefined();
  }
});
