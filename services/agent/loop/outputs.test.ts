import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { headAndTail, tellRan, withoutAnsi } from './outputs.ts';
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

const tell = (more: Partial<Ran>, savedAs?: string) => tellRan({ ...ran, ...more }, { budget: 1000, savedAs });

test('a text over the budget keeps its start and its end and tells the bytes between', () => {
  const told = headAndTail(`${'ä'.repeat(100)}middle${'z'.repeat(100)}`, 50);
  expect(told).toBe(`${'ä'.repeat(30)}\n[… 226 of 306 bytes are left out here …]\n${'z'.repeat(20)}`);
});

test('a text within the budget is whole, and no cut leaves half a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), fc.integer({ min: 2, max: 100 }), (text, budget) => {
      const told = headAndTail(text, budget);
      if (text.length <= budget) expect(told).toBe(text);
      expect(told.isWellFormed()).toBe(true);
    }),
  );
});

test('colours and lines that were drawn over are removed, in time that the length bounds', () => {
  expect(withoutAnsi('\u001b[1;31mred\u001b[0m\u001b]0;title\u0007 1 %\r100 %\nend\r\n')).toBe('100 %\nend\n');
  expect(withoutAnsi('x'.repeat(2_000_000))).toHaveLength(2_000_000);
});

describe('of a run the model is told', () => {
  test('its text, figures and files', () => {
    expect(tell({ text: 'a\n', images: 2, files: { created: ['b.csv'], modified: ['c.csv'], deleted: [] } })).toBe(
      'a\n[2 figures were shown to the reader.]\n[Files made: b.csv]\n[Files changed: c.csv]',
    );
  });

  test('at most 20 files by name', () => {
    const created = Array.from({ length: 30 }, (_, index) => `${index}.txt`);
    expect(tell({ files: { created, modified: [], deleted: [] } })).toMatch(/19\.txt and 10 more\]$/);
  });

  test('where all of a long text is', () => {
    expect(tell({ text: 'a'.repeat(2000) }, '.codebox/outputs/x.txt')).toContain('/mnt/data/.codebox/outputs/x.txt');
  });

  test('the end of a long traceback, and what to do', () => {
    const traceback = [...Array.from({ length: 500 }, (_, line) => `\u001b[31mframe ${line}\u001b[0m`), 'KeyError: 1'];
    const told = tell({ status: 'error', error: { name: 'KeyError', value: '1', traceback } });
    expect(told).toMatch(/^\[…\]/);
    expect(told).toContain('frame 499\nKeyError: 1\nFind the cause first');
    expect(told.length).toBeLessThan(3000);
  });

  test('of a missing package what can be done about it', () => {
    const hint = {
      code: 'install_package',
      manager: 'pip',
      package: 'pyyaml',
      module: 'yaml',
      detail: 'No network.',
    } as const;
    const told = tell({ status: 'error', error: { name: 'ModuleNotFoundError', value: 'yaml', traceback: [], hint } });
    expect(told).toContain('No network. If it cannot be installed, do it without yaml');
  });

  test('why it ended, and that its variables are gone', () => {
    const told = tell({ status: 'oom', cause: 'Out of memory.', stateLost: true, durationMs: 1500 });
    expect(told).toContain('[It ended with oom after 1.5 s: Out of memory.]\n[All variables');
  });

  test('to print, when it said nothing', () => {
    expect(tell({})).toBe('It printed nothing: print what you want to see.');
  });
});
