import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeRan, headAndTail, withoutAnsi } from './outputs.ts';
import type { Ran } from './workspace.ts';

const ran: Ran = {
  execution: 'exe_1',
  status: 'ok',
  durationMs: 10,
  text: '',
  error: null,
  stateLost: false,
  cause: null,
  images: 0,
  files: { created: [], modified: [], deleted: [] },
};

const description = (more: Partial<Ran>, savedAs?: string) =>
  describeRan({ ...ran, ...more }, { budget: 1000, savedAs });

test('a text over the budget keeps its start and end, and states how many bytes are omitted', () => {
  const text = headAndTail(`${'ä'.repeat(100)}middle${'z'.repeat(100)}`, 50);
  expect(text).toBe(`${'ä'.repeat(30)}\n[… 226 of 306 bytes are left out here …]\n${'z'.repeat(20)}`);
});

test('a text within the budget is whole, and no cut leaves half a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), fc.integer({ min: 2, max: 100 }), (text, budget) => {
      const cut = headAndTail(text, budget);
      if (text.length <= budget) expect(cut).toBe(text);
      expect(cut.isWellFormed()).toBe(true);
    }),
  );
});

test('colours and overwritten lines are removed, also from a long text', () => {
  expect(withoutAnsi('\u001b[1;31mred\u001b[0m\u001b]0;title\u0007 1 %\r100 %\nend\r\n')).toBe('100 %\nend\n');
  expect(withoutAnsi('x'.repeat(2_000_000))).toHaveLength(2_000_000);
});

describe('the description of a run has', () => {
  test('its text, figures and files', () => {
    expect(
      description({ text: 'a\n', images: 2, files: { created: ['b.csv'], modified: ['c.csv'], deleted: [] } }),
    ).toBe('a\n[2 figures were shown to the reader.]\n[Files made: b.csv]\n[Files changed: c.csv]');
  });

  test('at most 20 files by name', () => {
    const created = Array.from({ length: 30 }, (_, index) => `${index}.txt`);
    expect(description({ files: { created, modified: [], deleted: [] } })).toMatch(/19\.txt and 10 more\]$/);
  });

  test('the path of the whole text when it is long', () => {
    expect(description({ text: 'a'.repeat(2000) }, '.codebox/outputs/x.txt')).toContain(
      '/mnt/data/.codebox/outputs/x.txt',
    );
  });

  test('the end of a long traceback, and advice', () => {
    const traceback = [...Array.from({ length: 500 }, (_, line) => `\u001b[31mframe ${line}\u001b[0m`), 'KeyError: 1'];
    const text = description({ status: 'error', error: { name: 'KeyError', value: '1', traceback } });
    expect(text).toMatch(/^\[…\]/);
    expect(text).toContain('frame 499\nKeyError: 1\nFind the cause first');
    expect(text.length).toBeLessThan(3000);
  });

  test('advice about a missing package', () => {
    const hint = {
      code: 'install_package',
      manager: 'pip',
      package: 'pyyaml',
      module: 'yaml',
      detail: 'No network.',
    } as const;
    const text = description({
      status: 'error',
      error: { name: 'ModuleNotFoundError', value: 'yaml', traceback: [], hint },
    });
    expect(text).toContain('No network. If it cannot be installed, do it without yaml');
  });

  test('the cause of its end, and the loss of its variables', () => {
    const text = description({ status: 'oom', cause: 'Out of memory.', stateLost: true, durationMs: 1500 });
    expect(text).toContain('[It ended with oom after 1.5 s: Out of memory.]\n[All variables');
  });

  test('advice to print when there was no output', () => {
    expect(description({})).toBe('It printed nothing: print what you want to see.');
  });
});
