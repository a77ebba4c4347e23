import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { buildPage } from '../../scripts/web.ts';

describe('the built page', () => {
  let data: string;
  let folder: string;
  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), 'codebox-page-'));
    vi.stubEnv('NODE_ENV', 'development');
    // Two concurrent builds resolve with the same folder.
    const [one, other] = await Promise.all([buildPage(data), buildPage(data)]);
    expect(one).toBe(other);
    folder = one;
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await rm(data, { recursive: true, force: true });
  });

  const readAssets = async (suffix: string): Promise<string[]> => {
    const names = (await readdir(join(folder, 'assets'))).filter((name) => name.endsWith(suffix));
    return await Promise.all(names.map((name) => readFile(join(folder, 'assets', name), 'utf8')));
  };

  test('is built once for its sources, and leaves no temporary folder', async () => {
    const before = await stat(join(folder, 'index.html'));
    expect(await buildPage(data)).toBe(folder);
    expect((await stat(join(folder, 'index.html'))).mtimeMs).toBe(before.mtimeMs);
    expect(await readdir(join(data, 'web'))).toHaveLength(1);
  });

  test('first loads less than 230 KB by Brotli and 275 KB by gzip', async () => {
    const html = await readFile(join(folder, 'index.html'), 'utf8');
    const first = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, path]) => path ?? '');
    expect(first.some((path) => path.endsWith('.js'))).toBe(true);
    expect(first.some((path) => path.endsWith('.css'))).toBe(true);
    for (const [suffix, most] of [
      ['.br', 230_000],
      ['.gz', 275_000],
    ] as const) {
      const sizes = await Promise.all(['index.html', ...first].map((path) => stat(join(folder, path + suffix))));
      const total = sizes.reduce((sum, { size }) => sum + size, 0);
      expect(total).toBeGreaterThan(50_000);
      expect(total).toBeLessThan(most);
    }
  });

  test('has the production build of React, whatever NODE_ENV is', async () => {
    const scripts = (await readAssets('.js')).join('\n');
    expect(scripts.includes('react.transitional.element')).toBe(true);
    // A part of the stack traces of the development build.
    expect(scripts.includes('react_stack_bottom_frame')).toBe(false);
  });

  test('has no inline script or style, and refers to no other host', async () => {
    const html = await readFile(join(folder, 'index.html'), 'utf8');
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\son\w+=|https?:\/\//);
    for (const style of await readAssets('.css')) expect(style).not.toMatch(/url\((?!\/assets\/)|@import/);
  });
});
