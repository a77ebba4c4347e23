import { parseArgs } from 'node:util';
import { type KeyScope, keyScopes, type Quotas, quotaNames } from '#contract';
import { Misuse } from './usage.ts';

const text = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;

const toOption = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

const optionTypes = {
  json: flag,
  help: { ...flag, short: 'h' },
  limit: text,
  url: text,
  name: text,
  tenant: text,
  state: text,
  scopes: text,
  expires: text,
  overlap: text,
  from: text,
  to: text,
  user: text,
} as const;

export type Options = Partial<Record<string, string>>;

/** A parsed command line. */
export interface Line {
  positionals: string[];
  options: Options;
  isJson: boolean;
  wantsHelp: boolean;
}

/** Parses a command line. Throws `Misuse` for an option that no command has. */
export const readLine = (args: string[]): Line => {
  const quotaOptions = Object.fromEntries(quotaNames.map((name) => [toOption(name), text]));
  try {
    const { values, positionals } = parseArgs({
      args,
      options: { ...optionTypes, ...quotaOptions },
      allowPositionals: true,
    });
    const { json = false, help = false, ...rest } = values;
    return { positionals, options: rest as Options, isJson: json === true, wantsHelp: help === true };
  } catch (error) {
    throw new Misuse(error instanceof Error ? error.message : String(error));
  }
};

/** Returns `options`. Throws `Misuse` if they contain one that is neither common nor in `names`. */
export const only = (options: Options, ...names: string[]): Options => {
  const common = ['limit', 'url', ...names];
  const other = Object.keys(options).find((name) => !common.includes(name));
  if (other !== undefined) throw new Misuse(`--${other} does not belong to this command.`);
  return options;
};

export const quotaOptionNames: string[] = quotaNames.map(toOption);

/** The quotas among the options; `none` removes a quota. */
export const quotasOf = (options: Options): Partial<Quotas> => {
  const entries = quotaNames.flatMap((name) => {
    const value = options[toOption(name)];
    return value === undefined ? [] : [[name, value === 'none' ? null : wholeNumber(value, toOption(name))] as const];
  });
  return Object.fromEntries(entries);
};

export const wholeNumber = (value: string, option: string): number => {
  if (!/^\d{1,12}$/.test(value)) throw new Misuse(`--${option} takes a whole number, not "${value}".`);
  return Number(value);
};

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Parses `90`, `90s`, `15m`, `1h` or `30d` into seconds; undefined if the option is not set. */
export const secondsOf = (value: string | undefined, option: string): number | undefined => {
  if (value === undefined) return undefined;
  const [, number = '', unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(value) ?? [];
  if (number === '') throw new Misuse(`--${option} takes a time such as 90s, 15m, 1h or 30d, not "${value}".`);
  return Number(number) * (unitSeconds[unit] ?? 1);
};

/** Parses a list such as `run,files`. */
export const scopesOf = (value: string | undefined): KeyScope[] | undefined =>
  value?.split(',').map((part) => {
    const scope = keyScopes.find((name) => name === part.trim());
    if (!scope) throw new Misuse(`"${part}" is not a scope; there are ${keyScopes.join(', ')}.`);
    return scope;
  });

export const oneOf = <T extends string>(value: string | undefined, option: string, values: readonly T[]) => {
  if (value === undefined) return undefined;
  const found = values.find((name) => name === value);
  if (found === undefined) throw new Misuse(`--${option} is one of ${values.join(', ')}.`);
  return found;
};
