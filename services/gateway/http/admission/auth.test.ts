import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { keyId, makeKey } from './auth.ts';
import { createKeyCheck } from './key-check.ts';

test('a key contains its id, and only its hash is stored', () => {
  const { key, id, hash } = makeKey();
  expect(keyId(key)).toBe(id);
  expect(hash).toBe(createHash('sha256').update(key).digest('hex'));
  expect(hash).not.toContain(key);
});

test('a mistyped key is detected by its checksum', () => {
  const { key } = makeKey();
  const at = 20;
  const other = key[at] === 'a' ? 'b' : 'a';
  expect(keyId(key.slice(0, at) + other + key.slice(at + 1))).toBeUndefined();
  expect(keyId(`${key}x`)).toBeUndefined();
  expect(keyId('')).toBeUndefined();
});

test('a key that an operator has made needs no checksum', () => {
  expect(keyId(`cbx_${'a'.repeat(12)}_${'b'.repeat(43)}`)).toBe('a'.repeat(12));
  expect(keyId(`cbx_${'a'.repeat(12)}_${'b'.repeat(42)}`)).toBeUndefined();
});

test('keys do not repeat', () => {
  const keys = Array.from({ length: 1000 }, () => makeKey().key);
  expect(new Set(keys).size).toBe(1000);
});

test('a key is valid only with the stored secret, also while its id is cached', async () => {
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
