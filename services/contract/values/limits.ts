import { z } from 'zod';
import { plainText } from './text.ts';

const megabytes = (min: number, max: number) => z.int().min(min).max(max);

/** CPU time, in seconds, of all CPUs together. */
export const cpuSecondsSchema = z.number().min(0.1).max(100_000_000);

/** The limits of a box. Those that are left out come from its template; none may exceed the template's maximum. */
export const limitsSchema = z
  .strictObject({
    cpus: z.number().min(0.1).max(64).meta({ description: 'Number of CPUs; a fraction is a share of one CPU.' }),
    memoryMb: megabytes(128, 1_048_576).meta({ description: 'Memory in MiB, page cache included; no swap.' }),
    diskMb: megabytes(16, 1_048_576).meta({
      description: 'The volume that holds the working folder and the home folder.',
    }),
    pids: z.int().min(16).max(32_768).meta({ description: 'Processes and threads.' }),
    cpuSeconds: cpuSecondsSchema.optional().meta({
      description:
        'CPU time of everything in the box over its whole life, including its start (some seconds); without it there is no ' +
        'limit. Once it is spent, runs end with cause cpu_limit and new ones are refused (403 cpu_limit); files stay ' +
        'accessible. A box that uses 5 s plus 10 % more is deleted.',
    }),
  })
  .meta({ id: 'Limits' });

export type Limits = z.infer<typeof limitsSchema>;

const environmentName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be a name of letters, digits and _');

/**
 * Environment variables: at most 128, each value at most 32 KiB and without NUL. They travel as data, never as part of
 * a script.
 */
export const environmentSchema = z
  .record(environmentName, plainText().max(32_768))
  .refine((env) => Object.keys(env).length <= 128, 'must have at most 128 entries');

export type Environment = z.infer<typeof environmentSchema>;
