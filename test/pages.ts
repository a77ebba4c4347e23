import { glob, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

export const project = resolve(import.meta.dirname, '..');

/** Every page of the documentation, by its path in the project, in order. */
export const pages = (
  await Array.fromAsync(
    glob(['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'examples/**/*.md', 'clients/**/*.md'], { cwd: project }),
  )
).sort();

/** A fenced block of a page. */
export interface Block {
  page: string;
  /** The line of its first fence, from 1. */
  line: number;
  language: string;
  text: string;
  /** Why no test runs the block: the text after `not-run:` in its fence. */
  notRun: string | undefined;
}

export const readPage = (page: string): Promise<string> => readFile(join(project, page), 'utf8');

/** The fenced blocks of a page in order. */
export const readBlocks = async (page: string): Promise<Block[]> => {
  const text = await readPage(page);
  return [...text.matchAll(/^```(\w*)(?: not-run: ([^\n]+))?\n(.*?)^```$/gms)].map((match) => ({
    page,
    line: text.slice(0, match.index).split('\n').length,
    language: match[1] ?? '',
    notRun: match[2],
    text: match[3] ?? '',
  }));
};

/** The shell blocks of a page that tests run, each with what its output must contain: the JSON block right behind it. */
export const readScripts = async (page: string): Promise<{ script: string; expected: string | undefined }[]> => {
  const blocks = await readBlocks(page);
  return blocks.flatMap(({ language, notRun, text }, index) => {
    if (language !== 'sh' || notRun !== undefined) return [];
    const next = blocks[index + 1];
    return [{ script: text, expected: next?.language === 'json' ? next.text.trim() : undefined }];
  });
};

/** The anchors of a page: its headings as GitHub writes them. */
export const readAnchors = async (page: string): Promise<string[]> =>
  [...(await readPage(page)).replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-'),
  );
