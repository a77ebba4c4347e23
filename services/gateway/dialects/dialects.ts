import type { Dialect } from '../http/app.ts';
import { codeboxapi } from './codeboxapi/codeboxapi.ts';
import { createE2b, type E2bOptions } from './e2b/e2b.ts';
import { jupyter } from './jupyter/jupyter.ts';
import { librechat } from './librechat/librechat.ts';
import { openai } from './openai/openai.ts';
import { piston } from './piston/piston.ts';

/** The settings of the gateway that dialects use. */
export type DialectOptions = E2bOptions;

/** The dialects that `CODEBOX_DIALECTS` can name. The clients of one product may need several surfaces. */
const dialects = {
  codeboxapi: () => codeboxapi,
  e2b: createE2b,
  jupyter: () => [jupyter],
  librechat: () => librechat,
  openai: () => openai,
  piston: () => piston,
} satisfies Record<string, (options: DialectOptions) => readonly Dialect[]>;

export type DialectName = keyof typeof dialects;

export const dialectNames = Object.keys(dialects) as DialectName[];

/** Returns what is served for these names. */
export const dialectsOf = (names: readonly DialectName[], options: DialectOptions): Dialect[] =>
  names.flatMap((name) => dialects[name](options));
