import { z } from 'zod';
import { didYouMean, nearest } from '../../suggestions/nearest.ts';

/** Other names for our keys, without case and separators. */
const synonyms = new Map<string, readonly string[]>([
  ['code', ['command']],
  ['command', ['code']],
  ['source', ['code', 'from']],
  ['script', ['code', 'command']],
  ['content', ['text', 'code']],
  ['contents', ['text']],
  ['cmd', ['command']],
  ['shell', ['command']],
  ['kernel', ['language', 'context']],
  ['runtime', ['language']],
  ['kernelid', ['context']],
  ['contextid', ['context']],
  ['session', ['context']],
  ['background', ['detach']],
  ['async', ['detach']],
  ['image', ['template']],
  ['name', ['path']],
  ['filename', ['path']],
  ['variables', ['env']],
  ['dir', ['cwd', 'path']],
  ['directory', ['cwd', 'path']],
  ['folder', ['cwd', 'path']],
  ['workdir', ['cwd']],
  ['workingdirectory', ['cwd']],
  ['ram', ['memoryMb']],
  ['processes', ['pids']],
  ['timelimit', ['timeoutSeconds']],
  ['ttl', ['maxLifetimeSeconds', 'idleSeconds']],
  ['lifetime', ['maxLifetimeSeconds']],
  ['internet', ['network']],
  ['allowinternetaccess', ['network']],
  ['dependencies', ['packages']],
  ['requirements', ['packages']],
  ['libraries', ['packages']],
  ['suspended', ['state']],
  ['active', ['state']],
  ['enabled', ['state']],
  ['operation', ['op']],
  ['type', ['op']],
  ['target', ['to']],
  ['destination', ['to']],
  ['answer', ['text']],
  ['message', ['text']],
  ['prompt', ['text']],
]);

/** The keys that a schema accepts at `path`; empty when that is not an object. */
const keysAt = (schema: unknown, path: readonly PropertyKey[]): string[] => {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return keysAt(schema.unwrap(), path);
  if (schema instanceof z.ZodPipe) return keysAt(schema.in, path);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => keysAt(option, path));
  const [part, ...rest] = path;
  if (schema instanceof z.ZodObject) {
    const shape: Record<string, unknown> = schema.shape;
    if (part === undefined) return Object.keys(shape);
    const key = String(part);
    return Object.hasOwn(shape, key) ? keysAt(shape[key], rest) : [];
  }
  if (part === undefined) return [];
  if (schema instanceof z.ZodArray) return keysAt(schema.element, rest);
  return schema instanceof z.ZodRecord ? keysAt(schema.valueType, rest) : [];
};

/** The fault of an unknown key, with a suggestion. */
export const unknownKey = (schema: z.ZodType, path: readonly PropertyKey[], key: string): string =>
  `is not a known key${didYouMean(nearest(key, keysAt(schema, path), synonyms))}`;
