import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../images');
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

/** The packages that the requirements of an image name, with their locked versions, as rows of a table. */
const rows = (image: string): string[] => {
  const locked = new Map(
    [...read(`${image}/requirements.txt`).matchAll(/^([\w.-]+)==([^ ]+)/gm)].map(([, name, version]) => [
      name,
      version,
    ]),
  );
  return [...read(`${image}/requirements.in`).matchAll(/^[a-z][\w-]*/gim)].map(
    ([name]) => `| ${name} | ${locked.get(name.toLowerCase().replaceAll('_', '-'))} |`,
  );
};

/** The Debian packages that a Dockerfile installs. */
const debianPackages = (image: string): string => {
  const [, list = ''] = /--no-install-recommends \\\n([^&]*)&&/.exec(read(`${image}/Dockerfile`)) ?? [];
  const names = list.split(/[\s\\]+/).filter((name) => name !== '');
  return names.map((name) => `\`${name}\``).join(', ');
};

/** Generates the page about the contents of a box from the files that the image is built from. */
export const imagePage = (): string =>
  [
    '# Contents of a box',
    '',
    'This page lists the contents of `codebox-box`, the image of the template `python`, and of `codebox-box-full`, that of `full`.',
    '`npm run openapi` generates it from `images`. `GET /v1/templates/{template}` lists all packages with their versions, including',
    'dependencies, and the programs.',
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
    ...rows('box'),
    '',
    'Further packages, and other versions of these, are installed into the home folder of a box by `POST …/packages`, by `autoInstall`, or by',
    '`pip` itself, which requires a network or a folder of wheels: [packages.md](packages.md).',
    '',
    '## Programs, from Debian 12',
    '',
    debianPackages('box'),
    '',
    '`apt` cannot be used in a box, whose system is read-only. With the local driver the programs are those of the host: [drivers.md](drivers.md).',
    '',
    '## The full image',
    '',
    'It has all of the above. `npm run full-image` builds it, which takes about ten minutes and 7 GB. `npm start` then offers it as the template',
    '`full`, which chats use. Elsewhere `CODEBOX_FULL_IMAGE` names it. The local driver has no images: its boxes use the programs of the host.',
    '',
    debianPackages('box-full'),
    '',
    'Fonts cover Latin, Greek, Cyrillic, Chinese, Japanese, Korean, Arabic, Hebrew, Devanagari, Thai and emoji; Matplotlib uses them without a',
    'setting. Locales such as `de_DE.UTF-8` exist for 37 languages and countries. Chromium runs headless without a sandbox of its own, as the seccomp',
    'filter of the box refuses the namespaces of one: the box is the sandbox. Playwright, Selenium and Plotly find it.',
    '',
    '| library | version |',
    '|---|---|',
    ...rows('box-full'),
    '',
    'PyTorch is not part of it, as PyPI has its builds for GPUs only, of 5 GB: [packages.md](packages.md).',
    '',
    '## Bill of materials',
    '',
    'Each image contains its own in CycloneDX: `docker run --rm --entrypoint cat codebox-box:latest /opt/codebox/share/bill-of-materials.json`.',
    '',
    '## Versions',
    '',
    '`images/box/requirements.in` and `images/box-full/requirements.in` name the packages, and `npm run lock` resolves both together and writes the',
    'lock files with hashes. `images/box-full/neighbours.in` names packages that have to be installable beside them.',
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
