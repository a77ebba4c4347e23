import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem, SearchPage } from '#contract';
import { drivers, type RunningGateway, startGateway } from './harness.ts';

// Boxes of the docker driver have ripgrep, those of the local driver only when the host has it.
describe.each(drivers)('searching files on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox();
    const command = [
      'mkdir -p src/deep "quo\\"te"',
      "printf 'import os\\n\\nTODO = 1\\n  # todo: x\\n' > src/a.py",
      "printf 'no\\nTODO' > src/deep/b.py",
      "printf 'TODO\\0' > src/binary",
      "printf 'TODO \\377\\r\\n' > src/c.txt",
      `for name in $'new\\nline' $'raw\\xff' -dash 😀; do echo hit > "quo\\"te/$name"; done`,
      'seq 5000 > numbers',
      `head -c 3000000 /dev/zero | tr '\\0' x > long; echo 'start hit' >> long`,
    ];
    await gateway.post(`/v1/boxes/${box.id}/commands`, { command: command.join('\n') });
  });
  afterAll(() => gateway?.dispose());

  const get = <T>(query: Record<string, string>) =>
    gateway.get<T>(`/v1/boxes/${box.id}/files:search?${new URLSearchParams(query)}`);
  const search = async (query: Record<string, string>) => {
    const { status, body } = await get<SearchPage>(query);
    expect(status).toBe(200);
    return body;
  };

  test('lines are found with their position, and binary files are skipped', async () => {
    const { items, nextCursor, complete } = await search({ path: 'src', content: 'TODO' });
    expect(items).toEqual([
      { path: 'src/a.py', line: 3, column: 1, text: 'TODO = 1' },
      { path: 'src/c.txt', line: 1, column: 1, text: 'TODO \ufffd' },
      { path: 'src/deep/b.py', line: 2, column: 1, text: 'TODO' },
    ]);
    expect([nextCursor, complete]).toEqual([null, true]);
    const any = await search({ path: 'src', name: '*.py', content: 'todo', caseSensitive: 'false' });
    expect(any.items.map(({ path, line }) => `${path}:${line}`)).toEqual([
      'src/a.py:3',
      'src/a.py:4',
      'src/deep/b.py:2',
    ]);
    expect((await search({ path: 'src/a.py', content: '^\\s+#' })).items).toHaveLength(1);
  });

  test('names can be found by glob', async () => {
    const names = async (name: string, more = {}) => (await search({ name, ...more })).items.map(({ path }) => path);
    expect(await names('*.py')).toEqual(['src/a.py', 'src/deep/b.py']);
    expect(await names('src/*.py')).toEqual(['src/a.py']);
    expect(await names('DEEP', { caseSensitive: 'false' })).toEqual(['src/deep']);
    expect((await search({ name: 'deep' })).items).toEqual([{ path: 'src/deep', type: 'directory' }]);
  });

  test('pages of every size return the same lines', async () => {
    for (const limit of ['7', '100']) {
      const found: (number | undefined)[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: SearchPage = await search({ content: '[05]0$', path: 'numbers', limit, ...(cursor && { cursor }) });
        expect(page.items.length).toBeLessThanOrEqual(Number(limit));
        found.push(...page.items.map(({ line }) => line));
        cursor = page.nextCursor;
      }
      expect(found).toEqual(Array.from({ length: 100 }, (_, index) => (index + 1) * 50));
    }
  });

  test('a long line is truncated, and files of any name are found', async () => {
    const { items } = await search({ path: 'long', content: '^x' });
    expect(items[0]?.text).toBe('x'.repeat(400));
    const odd = await search({ path: 'quo"te', content: 'hit' });
    expect(odd.items.map(({ path }) => path.slice(7)).sort()).toEqual(['-dash', 'new\nline', 'raw\ufffd', '😀'].sort());
  });

  test.each([
    [{ content: '(' }, 400, '/query/content'],
    [{ content: '' }, 400, '/query/content'],
    [{}, 400, '/query/name'],
    [{ name: 'x', path: '../x' }, 400, '/query/path'],
    [{ name: 'x', path: 'none' }, 404, '/query/path'],
    [{ name: 'x', cursor: '?' }, 400, '/query/cursor'],
    [{ name: 'x', limit: '0' }, 400, '/query/limit'],
    [{ name: 'x', caseSensitive: 'maybe' }, 400, '/query/caseSensitive'],
  ])('%j is refused with a pointer to the parameter', async (query, status, pointer) => {
    const refused = await get<Problem>(query as unknown as Record<string, string>);
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([status, pointer]);
  });
});
