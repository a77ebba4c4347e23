import type { z } from 'zod';
import { CodeBoxError, type InputFault } from '#contract';
import { unknownKey } from './known-keys.ts';

const maxFaults = 50;

/** Converts zod's issues for `schema` to faults with JSON pointers below `root`: the first 50. */
export const toFaults = (schema: z.ZodType, issues: readonly z.core.$ZodIssue[], root: string): InputFault[] => {
  const faults: InputFault[] = [];
  for (const issue of issues) {
    if (faults.length >= maxFaults) break;
    faults.push(...toFaultsOf(schema, issue, root));
  }
  return faults.slice(0, maxFaults);
};

const toFaultsOf = (schema: z.ZodType, issue: z.core.$ZodIssue, root: string): InputFault[] => {
  const pointer = [root, ...issue.path.map((part) => String(part).replaceAll('~', '~0').replaceAll('/', '~1'))].join(
    '/',
  );
  if (issue.code !== 'unrecognized_keys') return [{ pointer, detail: issue.message }];
  return issue.keys
    .slice(0, 20)
    .map((key) => ({ pointer: `${pointer}/${key.slice(0, 100)}`, detail: unknownKey(schema, issue.path, key) }));
};

/** The error for invalid input. */
export const faulty = (errors: InputFault[], cause?: unknown) =>
  new CodeBoxError(
    'invalid_request',
    errors
      .map((fault) => `${fault.pointer || 'The body'} ${fault.detail}`)
      .join('; ')
      .slice(0, 1000),
    {
      errors: errors.slice(0, maxFaults),
      ...(cause !== undefined && { cause }),
    },
  );
