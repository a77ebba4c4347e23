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

const testsText = (row: Feature): string =>
  row.supported === 'no'
    ? ''
    : Object.entries(row.tests)
        .map(([file, names]) => `[${file}](../${file}): ${names.join('; ')}`)
        .join('<br>');

/** Generates docs/features.md: a table of the features, each with the tests that verify it. */
export const featuresPage = (features: readonly Feature[]): string => {
  const count = (supported: Feature['supported']) => features.filter((row) => row.supported === supported).length;
  const rows = features.map((row) => `| ${[row.feature, supportText(row), testsText(row)].map(cell).join(' | ')} |`);
  return `${[
    '# Features',
    '',
    'The features that users of sandboxes and code interpreters look for, and the tests that verify them here. `npm run features`',
    'generates this page from `test/features.yaml`; a test checks that each named test exists.',
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
