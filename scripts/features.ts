import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { projectFolder } from './project.ts';

/** One row of test/features.yaml: `tests` maps a test file to the names of its tests. */
const featureSchema = z.discriminatedUnion('supported', [
  z.strictObject({ feature: z.string(), supported: z.literal('no') }),
  z.strictObject({
    feature: z.string(),
    supported: z.literal('partly'),
    missing: z.string(),
    tests: z.record(z.string(), z.array(z.string()).min(1)),
  }),
  z.strictObject({
    feature: z.string(),
    supported: z.literal('yes'),
    tests: z.record(z.string(), z.array(z.string()).min(1)),
  }),
]);

type Feature = z.infer<typeof featureSchema>;

/** The file of the page that `featuresPage` generates. */
export const featuresFile = join(projectFolder, 'docs/features.md');

/** Reads test/features.yaml. Throws a ZodError for an invalid row. */
export const readFeatures = (): Feature[] =>
  z.array(featureSchema).parse(parse(readFileSync(join(projectFolder, 'test/features.yaml'), 'utf8')));

const cell = (text: string): string => text.replaceAll('|', '\\|');

const supportText = (row: Feature): string => {
  if (row.supported === 'partly') return `partly: ${row.missing}`;
  return row.supported;
};

/** A title without what differs from one run of the test to the next. */
const plain = (title: string): string =>
  title.replace(/,? (?:on|with boxes of) the %s driver$/, '').replaceAll(/\$\{[^}]*\}|%[sj]/g, '…');

/**
 * The titles of a test: those of the `describe` blocks around it, the outermost first, and its own; undefined if the file has no such
 * test. It relies on the format of the sources, in which a block ends with `});` below its first character.
 */
export const titlesOf = (file: string, name: string): string[] | undefined => {
  const text = readFileSync(join(projectFolder, file), 'utf8');
  if (file.endsWith('.py')) return text.includes(`def ${name}(`) ? [name] : undefined;
  const wanted = RegExp.escape(name);
  const found = new RegExp(`(?:'(${wanted})'|"(${wanted})"|\`([^\`\n]*${wanted})\`),\\s*(?:async )?\\(`).exec(text);
  if (!found) return undefined;
  const before = text.slice(0, found.index);
  const blocks = [...before.matchAll(/^( *)describe\b.*?\((['"`])(.+?)\2, (?:\{.*\}, )?\(/gm)];
  const around = blocks.filter(({ index, 1: indent = '' }) => !before.slice(index).includes(`\n${indent}});\n`));
  return [...around.map(([, , , title = '']) => title), found[1] ?? found[2] ?? found[3] ?? ''].map(plain);
};

/** The tests of a file as `block > test; test`: the blocks around a test are printed unless they are those of the one before. */
const namesText = (file: string, names: readonly string[]): string => {
  const titles = names.map((name) => titlesOf(file, name) ?? [name]);
  const around = titles.map((all) => all.slice(0, -1).join(' > '));
  return titles.map((all, index) => (around[index] === around[index - 1] ? all.at(-1) : all.join(' > '))).join('; ');
};

const testsText = (row: Feature): string =>
  row.supported === 'no'
    ? ''
    : Object.entries(row.tests)
        .map(([file, names]) => `[${file}](../${file}): ${namesText(file, names)}`)
        .join('<br>');

/** Generates docs/features.md: a table of the features, each with the tests that verify it. */
export const featuresPage = (features: readonly Feature[]): string => {
  const count = (supported: Feature['supported']) => features.filter((row) => row.supported === supported).length;
  const rows = features.map((row) => `| ${[row.feature, supportText(row), testsText(row)].map(cell).join(' | ')} |`);
  return `${[
    '# Features',
    '',
    'The features that users of sandboxes and code interpreters look for, and the tests that verify them here. `npm run features`',
    'generates this page from `test/features.yaml`; a test checks that each named test exists. `>` separates a test from the block that',
    'it is in.',
    '',
    `Of ${features.length} features, ${count('yes')} are supported, ${count('partly')} partly, and ${count('no')} are not.`,
    '',
    '| feature | supported | tests |',
    '|---|---|---|',
    ...rows,
  ].join('\n')}\n`;
};

if (import.meta.main) {
  await writeFile(featuresFile, featuresPage(readFeatures()));
  process.stdout.write(`wrote ${featuresFile}\n`);
}
