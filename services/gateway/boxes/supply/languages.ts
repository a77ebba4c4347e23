import { CodeBoxError } from '#contract';
import { didYouMean, nearest } from '../../../suggestions/nearest.ts';

/** Other names of languages in requests. */
const aliases = new Map([
  ['py', 'python'],
  ['python3', 'python'],
  ['ipython', 'python'],
  ['js', 'javascript'],
  ['node', 'javascript'],
  ['nodejs', 'javascript'],
  ['ts', 'typescript'],
  ['sh', 'bash'],
  ['shell', 'bash'],
]);

/** Returns the other names of a language. */
export const aliasesOf = (language: string): string[] =>
  [...aliases].flatMap(([alias, name]) => (name === language ? [alias] : []));

/** Returns the language that a request names, by its own name or an alias; undefined when it is not among `languages`. */
export const findLanguage = (languages: readonly string[], requested: string): string | undefined =>
  [requested, aliases.get(requested)].find((name) => name !== undefined && languages.includes(name));

/** Returns the language of a box that a request names. Throws `invalid_request` when the box does not have it. */
export const resolveLanguage = (languages: readonly string[], requested: string, pointer = '/language'): string => {
  const language = findLanguage(languages, requested);
  if (language !== undefined) return language;
  const suggestion = didYouMean(nearest(requested, languages));
  const detail = `is not a language of this box; it has ${languages.join(', ')}${suggestion}`;
  throw new CodeBoxError('invalid_request', 'The box does not have this language.', {
    errors: [{ pointer, detail }],
  });
};
