import { z } from 'zod';
import { parseLenient } from './lenient-json.ts';

/** Arguments and whether they had to be repaired; or their fault. */
export type Arguments<T> = { value: T; isRepaired: boolean } | { fault: string };

/** Longer arguments that are not JSON are not repaired, as that blocks the process. */
const maxRepaired = 262_144;

const repaired = (text: string): unknown => {
  if (text.length > maxRepaired) throw new SyntaxError('The text is too long to repair.');
  return parseLenient(text);
};

const withoutFence = (text: string): string => /^\s*```\w*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;

/** Possible readings of the text, most likely first. */
function* readings(text: string, rawName: string | undefined): Generator<unknown, void, undefined> {
  for (const read of [() => JSON.parse(text || '{}'), () => repaired(withoutFence(text))]) {
    try {
      const value: unknown = read();
      yield value;
      // Some models write JSON inside JSON, or the code as a JSON string.
      if (typeof value !== 'string') continue;
      yield repaired(value);
      if (rawName !== undefined && text.startsWith('"')) yield { [rawName]: value };
    } catch {
      // Try the next reading.
    }
  }
  if (rawName !== undefined && !/^\s*[{[]/.test(text) && !isJson(text)) yield { [rawName]: withoutFence(text) };
}

/**
 * Reads the arguments of a call and checks them with `schema`: as JSON, as JSON with the faults that models make, or,
 * with `rawName`, the text itself as the value of that parameter.
 */
export const readArguments = <S extends z.ZodType>(
  schema: S,
  text: string,
  rawName?: string,
): Arguments<z.output<S>> => {
  let fault = 'They are not a JSON object.';
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
