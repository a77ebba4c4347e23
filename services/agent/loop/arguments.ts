import { z } from 'zod';
import { parseLenient } from './lenient-json.ts';

/** Arguments as they were meant, and whether they had to be repaired for that; or what is wrong with them. */
export type Arguments<T> = { value: T; isRepaired: boolean } | { fault: string };

/** Longer arguments that are no JSON are not repaired: nothing else is done meanwhile. */
const maxRepaired = 262_144;

const repaired = (text: string): unknown => {
  if (text.length > maxRepaired) throw new SyntaxError('It is too long to be repaired.');
  return parseLenient(text);
};

const withoutFence = (text: string): string => /^\s*```\w*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;

/** What the text may have been meant as, the most likely first. */
function* readings(text: string, rawName: string | undefined): Generator<unknown, void, undefined> {
  for (const read of [() => JSON.parse(text || '{}'), () => repaired(withoutFence(text))]) {
    try {
      const value: unknown = read();
      yield value;
      // Some write the JSON of a JSON, or of the code.
      if (typeof value !== 'string') continue;
      yield repaired(value);
      if (rawName !== undefined && text.startsWith('"')) yield { [rawName]: value };
    } catch {
      // The next reading may do.
    }
  }
  if (rawName !== undefined && !/^\s*[{[]/.test(text) && !isJson(text)) yield { [rawName]: withoutFence(text) };
}

/**
 * Arguments of a call, checked by `schema`: as JSON, as JSON with the faults that models make, or, where `rawName` is given, the
 * text itself as the value of that name.
 */
export const readArguments = <S extends z.ZodType>(
  schema: S,
  text: string,
  rawName?: string,
): Arguments<z.output<S>> => {
  let fault = 'They are no JSON object.';
  let isFirst = true;
  for (const value of readings(text, rawName)) {
    const parsed = schema.safeParse(value);
    if (parsed.success) return { value: parsed.data, isRepaired: !isFirst || !isJson(text) };
    if (isFirst || typeof value === 'object') fault = z.prettifyError(parsed.error);
    isFirst = false;
  }
  return { fault };
};

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text || '{}');
    return true;
  } catch {
    return false;
  }
};
