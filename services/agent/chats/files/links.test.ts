import { expect, test } from 'vitest';
import { createVault } from '../../../vault/vault.ts';
import { createLinks } from './links.ts';

const tokenOf = (url: string) => url.split('/')[3] ?? '';

test('a link opens its target until it expires, and reveals nothing about it', () => {
  let now = 1_000_000;
  const links = createLinks(createVault('secret'), 60, () => now);
  const { url, expiresAt } = links.path({ key: 'cbx_key' }, 'chat-1', 'dir/a b.csv');
  expect(url).toMatch(/^\/v1\/files\/[\w-]+\/a%20b\.csv$/);
  expect(expiresAt).toBe(new Date(now + 60_000).toISOString());
  expect(Buffer.from(tokenOf(url), 'base64url').toString('latin1')).not.toMatch(/cbx_key|chat-1|csv/);
  expect(links.open(tokenOf(url))).toMatchObject({ chat: 'chat-1', path: 'dir/a b.csv', key: 'cbx_key' });
  now += 60_000;
  expect(() => links.open(tokenOf(url))).toThrow(expect.objectContaining({ code: 'gone' }));
});

test('a link that was changed, cut, or made with another secret or purpose opens nothing', () => {
  const seal = createVault('secret');
  const links = createLinks(seal, 60);
  const token = tokenOf(links.path({ key: undefined }, 'chat-1', 'a').url);
  const bytes = Buffer.from(token, 'base64url');
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(() => links.open(changed.toString('base64url')), String(at)).toThrow();
  }
  const foreign = createLinks(createVault('other'), 60).path({ key: undefined }, 'chat-1', 'a').url;
  for (const wrong of ['', 'x', token.slice(0, -4), tokenOf(foreign), seal.close('terminal', '{}')])
    expect(() => links.open(wrong)).toThrow(expect.objectContaining({ code: 'not_found' }));
});

test('links to pictures, their data and kept copies carry the key of their owner too', () => {
  const links = createLinks(createVault('secret'), 60);
  const owner = { key: 'cbx_key' };
  const image = links.image(owner, 'chat-1', { name: 'f.png', mime: 'image/png', blob: 'b', chartBlob: 'c' });
  const file = links.file(owner, 'chat-1', { path: 'a', name: 'a', sizeBytes: 1, mime: 'text/plain', blob: 'd' });
  for (const url of [image.url, image.chartUrl ?? '', file.url])
    expect(links.open(tokenOf(url))).toMatchObject({ chat: 'chat-1', key: 'cbx_key' });
});
