import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { projectFolder } from './project.ts';

/** One row of test/features.yaml: `tests` holds names of tests by their file. */
const featureSchema = z.discriminatedUnion('there', [
  z.strictObject({ feature: z.string(), there: z.literal('no') }),
  z.strictObject({
    feature: z.string(),
    there: z.literal('partly'),
    missing: z.string(),
    tests: z.record(z.string(), z.array(z.string()).min(1)),
  }),
  z.strictObject({
    feature: z.string(),
    there: z.literal('yes'),
    tests: z.record(z.string(), z.array(z.string()).min(1)),
  }),
]);

type Feature = z.infer<typeof featureSchema>;

/** Where the page is written that `featuresPage` makes. */
export const featuresFile = join(projectFolder, 'docs/features.md');

/** The features as test/features.yaml has them; throws a ZodError for a row that is none. */
export const readFeatures = (): Feature[] =>
  z.array(featureSchema).parse(parse(readFileSync(join(projectFolder, 'test/features.yaml'), 'utf8')));

const cell = (text: string): string => text.replaceAll('|', '\\|');

const thereText = (row: Feature): string => {
  if (row.there === 'partly') return `partly: ${row.missing}`;
  return row.there === 'yes' ? 'yes' : 'not there';
};

const testsText = (row: Feature): string =>
  row.there === 'no'
    ? ''
    : Object.entries(row.tests)
        .map(([file, names]) => `[${file}](../${file}): ${names.join('; ')}`)
        .join('<br>');

/** docs/features.md: a table of the features, each with the tests that hold it. */
export const featuresPage = (features: readonly Feature[]): string => {
  const count = (there: Feature['there']) => features.filter((row) => row.there === there).length;
  const rows = features.map((row) => `| ${[row.feature, thereText(row), testsText(row)].map(cell).join(' | ')} |`);
  return `${[
    '# Features',
    '',
    'What users of sandboxes and code interpreters look for, and the tests that hold it here. Written by `npm run features` from',
    '`test/features.yaml`; a test finds each test that is named.',
    '',
    `Of ${features.length} features ${count('yes')} are there, ${count('partly')} partly, ${count('no')} are not.`,
    '',
    '| feature | there | held by |',
    '|---|---|---|',
    ...rows,
  ].join('\n')}\n`;
};

if (import.meta.main) {
  await writeFile(featuresFile, featuresPage(readFeatures()));
  process.stdout.write(`wrote ${featuresFile}\n`);
}
