import { z } from 'zod';
import { type CreateRun, newPathSchema, plainText, type Run, timeoutSecondsSchema, wellFormedText } from '#contract';
import type { Program } from '../../boxes/supply/templates.ts';

const defaultTimeoutMs = 3000;
const megabyte = 1024 * 1024;
/** The least memory of a box, in MiB. */
const minMemoryMb = 128;

const timeoutMs = z
  .number()
  .transform((ms) => ms / 1000)
  .pipe(timeoutSecondsSchema);
/** In bytes; -1 for that of the template. */
const memoryBytes = z.int().min(-1).max(Number.MAX_SAFE_INTEGER);

/** A request for an execution. Limits of the compilation have no effect, because no language of the default template is compiled. */
export const executionSchema = z.object({
  language: plainText().min(1).max(64),
  version: plainText().min(1).max(64),
  files: z
    .array(
      z.object({
        name: newPathSchema.or(z.literal('')).optional(),
        content: z.string(),
        encoding: z.enum(['utf8', 'base64', 'hex']).default('utf8'),
      }),
    )
    .min(1)
    .max(256),
  stdin: wellFormedText().max(1_048_576).default(''),
  args: z.array(plainText().max(131_072)).max(256).default([]),
  run_timeout: timeoutMs.default(defaultTimeoutMs / 1000),
  run_cpu_time: timeoutMs.optional(),
  run_memory_limit: memoryBytes.default(-1),
});

type Execution = z.output<typeof executionSchema>;

/** Converts an execution to a run. A main file without a name gets the usual one of its language, because programs look at the suffix. */
export const toCreateRun = (ask: Execution, { file }: Program): CreateRun => ({
  language: ask.language,
  files: ask.files.map(({ name, content, encoding }, index) => ({
    path: name || (index === 0 ? file : `file${index}.code`),
    base64: Buffer.from(content, encoding).toString('base64'),
  })),
  stdin: ask.stdin,
  args: ask.args,
  timeoutSeconds: ask.run_timeout,
  ...(ask.run_cpu_time !== undefined && { cpuSeconds: ask.run_cpu_time }),
  ...(ask.run_memory_limit > 0 && {
    limits: { memoryMb: Math.max(minMemoryMb, Math.ceil(ask.run_memory_limit / megabyte)) },
  }),
});

/** How a run ended, in Piston's terms: its exit code or signal, a status of two letters, and a text. */
const endOf = ({ status, cause, exitCode, signal }: Run) => {
  const detail = cause?.detail ?? null;
  if (status === 'timeout') return { code: null, signal: 'SIGKILL', status: 'TO', message: detail };
  if (status === 'output_limit') return { code: null, signal: 'SIGKILL', status: 'OL', message: detail };
  if (status === 'lost') return { code: null, signal: null, status: 'XX', message: detail };
  if (signal !== null) return { code: null, signal, status: 'SG', message: detail ?? `Caught fatal signal ${signal}` };
  if (status === 'ok') return { code: exitCode, signal: null, status: null, message: null };
  if (status === 'error') {
    const message = `Exited with error status ${exitCode}`;
    return { code: exitCode, signal: null, status: 'RE', message };
  }
  return { code: exitCode, signal: 'SIGKILL', status: 'SG', message: detail };
};

/** Converts a run to the result that Piston reports, with both streams in the order in which they were written. */
export const toResult = (run: Run) => ({
  ...endOf(run),
  stdout: run.stdout,
  stderr: run.stderr,
  output: run.outputs.map((event) => (event.type === 'stdout' || event.type === 'stderr' ? event.text : '')).join(''),
  wall_time: Math.round(run.durationMs),
  cpu_time: run.cpuMs === null ? null : Math.round(run.cpuMs),
  memory: null,
});
