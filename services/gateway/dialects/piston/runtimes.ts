import { CodeBoxError } from '#contract';
import { aliasesOf, findLanguage } from '../../boxes/supply/languages.ts';
import { type Program, programOf } from '../../boxes/supply/templates.ts';
import type { RouteParts } from '../../http/app.ts';

export interface Runtime {
  language: string;
  version: string;
  aliases: string[];
}

/** How long the versions are kept; an operator may replace the image meanwhile. */
const keepMs = 600_000;
const probeSeconds = 30;
/** Prints each name of a language, and the version that its program reports. */
const probe = 'while [ $# -gt 1 ]; do echo "$1 $("$2" --version 2>&1 | head -n 1)"; shift 2; done';
const probedLine = /^(\S+) .*?(\d+)\.(\d+)(?:\.(\d+))?/;

/**
 * The languages of the default template that run as programs. Their versions are what the programs themselves report: the first request
 * of all runs them in a box of its caller.
 */
export const createRuntimes = ({ catalog, run }: Pick<RouteParts, 'catalog' | 'run'>) => {
  let kept: { runtimes: Promise<Runtime[]>; until: number } | undefined;

  const read = async (tenant: string): Promise<Runtime[]> => {
    const { programs } = catalog.choose();
    const args = Object.entries(programs).flatMap(([language, { argv }]) => [language, argv[0] ?? '']);
    const { status, stdout } = await run(tenant, { language: 'bash', code: probe, args, timeoutSeconds: probeSeconds });
    // A part of the list would be taken for the whole of it by everyone.
    if (status !== 'ok')
      throw new CodeBoxError('unavailable', 'The runtimes could not be listed.', { retryAfterSeconds: 1 });
    return stdout.split('\n').flatMap((line) => {
      const [, language, major, minor, patch = '0'] = probedLine.exec(line) ?? [];
      if (language === undefined) return [];
      return [{ language, version: `${major}.${minor}.${patch}`, aliases: aliasesOf(language) }];
    });
  };

  const list = async (tenant: string): Promise<Runtime[]> => {
    const found = kept && kept.until > performance.now() ? kept : undefined;
    // The failure of the run of another caller, for example at a quota, is no reason to fail here.
    const runtimes = await found?.runtimes.catch(() => undefined);
    if (runtimes) return runtimes;
    const mine = { runtimes: read(tenant), until: performance.now() + keepMs };
    kept = mine;
    try {
      return await mine.runtimes;
    } catch (error) {
      if (kept === mine) kept = undefined;
      throw error;
    }
  };

  return {
    list,

    /** Returns the runtime of a language in a version that a selector such as `3.x` matches. Throws `invalid_request`. */
    async find(tenant: string, language: string, version: string): Promise<Runtime> {
      const all = await list(tenant);
      const name = findLanguage(
        all.map((runtime) => runtime.language),
        language,
      );
      const found = all.find((runtime) => runtime.language === name);
      if (found && isMatch(found.version, version)) return found;
      throw new CodeBoxError('invalid_request', `${language}-${version} runtime is unknown`);
    },

    programOf: (language: string): Program => programOf(catalog.choose(), language),
  };
};

/** Whether a version has the numbers of a selector: `*`, `3`, `3.x`, `3.12.1`, `^3.1` for its major or `~3.1` for its minor version. */
const isMatch = (version: string, selector: string): boolean => {
  const [, range = '', text = ''] = /^([~^]?)v?(.*)$/.exec(selector) ?? [];
  const given = text.split('.').slice(0, range === '^' ? 1 : range === '~' ? 2 : 3);
  const own = version.split('.');
  return given.every((part, index) => /^[*xX]$/.test(part) || part === own[index]);
};
