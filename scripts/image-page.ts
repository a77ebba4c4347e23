import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../images/box');
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

/** Formats the `name==version` lines of a requirements file as rows of a table. */
const rows = (name: string): string[] =>
  read(name)
    .split('\n')
    .map((line) => line.split('=='))
    .filter((parts) => parts.length === 2)
    .map(([library = '', version = '']) => `| ${library} | ${version} |`)
    .sort();

/** The Debian packages that the Dockerfile installs. */
const debianPackages = (): string[] => {
  const [, list = ''] = /--no-install-recommends \\\n([^&]*)&&/.exec(read('Dockerfile')) ?? [];
  return list.split(/[\s\\]+/).filter((name) => name !== '');
};

/** Generates the page about the contents of a box from the files that the image is built from. */
export const imagePage = (): string =>
  [
    '# Contents of a box',
    '',
    'This page lists the contents of `codebox-box`, the image of the built-in template. `npm run openapi` generates it from `images/box`.',
    '`GET /v1/boxes/{box}/packages` lists all packages with their versions, including dependencies.',
    '',
    '## Languages',
    '',
    'Python, with IPython; JavaScript and TypeScript, with Node.js, npm and npx; Bash. Your own image can add others:',
    '[templates.md](templates.md).',
    '',
    '## Python',
    '',
    '| library | version |',
    '|---|---|',
    ...rows('requirements.txt'),
    ...rows('tools.txt'),
    '',
    'These versions are fixed: `pip install` refuses other versions of them. Further packages are installed into the home folder of a box',
    'by `POST …/packages`, by `autoInstall`, or by `pip` itself, which requires a network or a folder of wheels.',
    '',
    '## Programs, from Debian 12',
    '',
    debianPackages()
      .map((name) => `\`${name}\``)
      .join(', '),
    '',
    '`apt` cannot be used in a box, whose system is read-only. With the local driver the programs are those of the host: [drivers.md](drivers.md).',
    '',
    '## Files',
    '',
    '| path | content |',
    '|---|---|',
    '| `/mnt/data` | the working folder of all code, to which paths of the API are relative |',
    '| `/mnt/home` | the home folder, with installed packages |',
    '| `/tmp` | in memory, up to a quarter of the memory of the box: [limits.md](limits.md) |',
    '| everything else | read-only |',
    '',
  ].join('\n');
