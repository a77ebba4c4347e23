import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../images/box');
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

/** `name==version` lines of a list of requirements, as rows of a table. */
const rows = (name: string): string[] =>
  read(name)
    .split('\n')
    .map((line) => line.split('=='))
    .filter((parts) => parts.length === 2)
    .map(([library = '', version = '']) => `| ${library} | ${version} |`)
    .sort();

/** What the Dockerfile installs from Debian. */
const debianPackages = (): string[] => {
  const [, list = ''] = /--no-install-recommends \\\n([^&]*)&&/.exec(read('Dockerfile')) ?? [];
  return list.split(/[\s\\]+/).filter((name) => name !== '');
};

/** The page that tells what a box has, from the files that the image is made of. */
export const imagePage = (): string =>
  [
    '# What a box has',
    '',
    'The image of the built-in template, `codebox-box`. `npm run openapi` writes this page from `images/box`. Whatever these bring along is',
    'there too: `GET /v1/boxes/{box}/packages` lists everything with its version.',
    '',
    '## Languages',
    '',
    'Python, with IPython; JavaScript and TypeScript, with Node, npm and npx; Bash. Others come with an image of your own:',
    '[templates.md](templates.md).',
    '',
    '## Python',
    '',
    '| library | version |',
    '|---|---|',
    ...rows('requirements.txt'),
    ...rows('tools.txt'),
    '',
    'These keep their versions: `pip install` of another one of them is refused. Further ones are installed into the home folder of a box:',
    'by `POST …/packages`, by `autoInstall`, or by `pip` itself, each with a network or a folder of wheels.',
    '',
    '## Programs, from Debian 12',
    '',
    debianPackages()
      .map((name) => `\`${name}\``)
      .join(', '),
    '',
    'There is no `apt` in a box: its system is read-only. With the local driver the programs are those of the host: [drivers.md](drivers.md).',
    '',
    '## Files',
    '',
    '| where | what |',
    '|---|---|',
    '| `/mnt/data` | the working folder, `.` of all code; paths of the API are relative to it |',
    '| `/mnt/home` | the home folder, with what was installed |',
    '| `/tmp` | in memory, a quarter of that of the box: [limits.md](limits.md) |',
    '| everything else | read-only |',
    '',
  ].join('\n');
