import type { z } from 'zod';

/** Descriptions of expected values, by zod's name of the type. */
const kinds: Record<string, string> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
};

const formats: Record<string, string> = {
  base64: 'base64',
  datetime: 'a time such as 2026-01-31T12:00:00Z',
  email: 'an address for mail',
  url: 'a URL',
  uuid: 'a UUID',
};

/**
 * The messages for invalid values, worded to follow a pointer: `/code is required`. A message of the schema itself
 * takes precedence; undefined keeps zod's own.
 */
export const wording: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is required'
        : `must be ${kinds[issue.expected] ?? `of type ${issue.expected}`}`;
    case 'too_small':
      return `must ${bound(issue.origin, issue.inclusive === false ? 'more than' : 'at least', Number(issue.minimum))}`;
    case 'too_big':
      return `must ${bound(issue.origin, issue.inclusive === false ? 'less than' : 'at most', Number(issue.maximum))}`;
    case 'invalid_value':
      return issue.input === undefined ? 'is required' : `must be ${oneOf(issue.values)}`;
    case 'invalid_format':
      return `must be ${formats[issue.format] ?? `like ${issue.pattern ?? issue.format}`}`;
    case 'invalid_union':
      return issue.input === undefined ? 'is required' : 'has none of the forms that are allowed here';
    case 'invalid_key':
      return issue.issues[0]?.message;
    default:
      return undefined;
  }
};

/** Returns a requirement such as `be at least 1` for a number, `have at most 64 characters` for a text. */
const bound = (origin: string, relation: string, limit: number): string => {
  if (origin === 'string') return `have ${relation} ${limit} ${limit === 1 ? 'character' : 'characters'}`;
  if (origin === 'array' || origin === 'set') return `have ${relation} ${limit} ${limit === 1 ? 'item' : 'items'}`;
  return `be ${relation} ${limit}`;
};

const oneOf = (values: readonly unknown[]): string => {
  const shown = values.map((value) => JSON.stringify(value));
  return shown.length === 1 ? `${shown[0]}` : `one of ${shown.join(', ')}`;
};
