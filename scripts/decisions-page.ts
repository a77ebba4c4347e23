import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder } from './project.ts';

const folder = join(projectFolder, 'docs/decisions');

/** Generates docs/decisions/README.md from the headings of the decisions (`# 0001: Title`). Throws for a file without such a heading. */
export const decisionsPage = (): string => {
  const files = readdirSync(folder).filter((name) => /^\d{4}-.*\.md$/.test(name));
  const rows = files.sort().map((name) => {
    const [, title] = /^# \d{4}\W+(.+)$/m.exec(readFileSync(join(folder, name), 'utf8')) ?? [];
    if (title === undefined) throw new Error(`${name} has to begin with "# ${name.slice(0, 4)}: Title"`);
    return `| [${name.slice(0, 4)}](${name}) | ${title} |`;
  });
  return `${[
    '# Decisions',
    '',
    'Choices that others would question, each with its context and consequences. A superseded decision stays here and links to the one that',
    'replaces it. `npm run openapi` generates this page.',
    '',
    '| number | decision |',
    '|---|---|',
    ...rows,
  ].join('\n')}\n`;
};
