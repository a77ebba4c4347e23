import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { canDo } from './probe.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-probe-'));
});
afterAll(() => rm(folder, { recursive: true }));

const script = { try: 'mkdir "$p"; rmdir "$p"', undo: 'rm -f "$p"' };

test('a probe removes what a killed probe has left, and is not misled by it', async () => {
  await writeFile(join(folder, '.probe'), '');
  expect(await canDo(folder, script)).toBe(true);
  expect(await readdir(folder)).toEqual([]);
});

test('a failing probe returns false and leaves nothing behind', async () => {
  expect(await canDo(folder, { try: 'touch "$p"; false; true', undo: script.undo })).toBe(false);
  expect(await readdir(folder)).toEqual([]);
});

test('probes of one folder do not disturb each other', async () => {
  const slow = { try: 'mkdir "$p"; sleep 0.1', undo: 'rmdir "$p"' };
  expect(await Promise.all([canDo(folder, slow), canDo(folder, slow), canDo(folder, slow)])).toEqual([
    true,
    true,
    true,
  ]);
});
