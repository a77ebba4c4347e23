import { z } from 'zod';
import {
  commandDoneSchema,
  contextIdSchema,
  contextSchema,
  executionDoneSchema,
  foreignText,
  languageNameSchema,
  terminalSchema,
  variableSchema,
  volumeSchema,
} from '#contract';

/** What a box server responds with. It is not trusted, so every list and text has a bound. */
export const variablesSchema = z.object({
  items: z.array(variableSchema).max(1000),
  nextCursor: z.string().max(1024).nullable(),
});
/** How many variables are kept for a template, some of those that are not, and how many more. */
export const savedVariablesSchema = z.object({
  kept: z.int().min(0),
  faults: z.array(z.object({ name: foreignText(300), detail: foreignText(400) })).max(200),
  more: z.int().min(0),
});
export type SavedVariables = z.infer<typeof savedVariablesSchema>;
export const contextsSchema = z.object({ items: z.array(contextSchema).max(1000) });
const headerText = z.string().max(200);
export const executionSchema = z.object({
  id: z.string(),
  context: contextIdSchema.nullable(),
  language: languageNameSchema.nullable(),
  state: z.enum(['queued', 'running', 'done']),
  lastSeq: z.int(),
  executionCount: z.int().nullable(),
  queuedMs: z.number().nullable(),
  done: executionDoneSchema.nullable(),
  message: z.object({ id: headerText, session: headerText, username: headerText }).nullish(),
});
export const executionsSchema = z.object({ items: z.array(executionSchema).max(10_000) });
export const commandSchema = z.object({
  id: z.string(),
  command: z.string().nullish(),
  argv: z.array(z.string()).nullish(),
  cwd: z.string(),
  pid: z.int().nullable(),
  state: z.enum(['queued', 'running', 'done']),
  lastSeq: z.int(),
  done: commandDoneSchema.nullable(),
});
export const commandsSchema = z.object({ items: z.array(commandSchema).max(10_000) });
export const boxTerminalSchema = terminalSchema.omit({ box: true });
export const terminalsSchema = z.object({ items: z.array(boxTerminalSchema).max(100) });
export const statsSchema = z.object({ disk: volumeSchema.nullable() });

export type BoxTerminal = z.infer<typeof boxTerminalSchema>;
export type BoxCommand = z.infer<typeof commandSchema>;
export type BoxExecution = z.infer<typeof executionSchema>;
