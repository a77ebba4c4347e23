import { z } from 'zod';
import { foreignText } from './text.ts';

const amount = z.int().min(0);
/** A box has at most 1 TiB of anything; an integer that a number cannot hold is refused. */
const bytes = z.int().min(0);

export const exitCode = z.int().min(-0x8000_0000).max(0x7fff_ffff);

const causeCodes = [
  'timeout (stage is what it took to stop the run)',
  'cpu_limit (the status is timeout; with quota if it was the daily quota of the tenant, over all its boxes)',
  'output_limit',
  'interrupted',
  'signal (signal is its name)',
  'exit (exitCode is its code)',
  'oom (process is the one that ran out of memory)',
  'disk_full (usedBytes and limitBytes of the volume)',
  'pids_limit (the run filled the box with processes, and what it left running was ended)',
  'kernel_start (the kernel did not start or did not respond in time: no code has run)',
  'restarted, context_deleted (the context was restarted or deleted)',
  'box_… (the box has ended: box_deleted, box_idle, box_lost, box_memory_limit, box_unresponsive, …)',
  'not_started (none of the code has run or will run: retry)',
  'journal_lost, protocol_error, no_end (the box did not report the end)',
  'internal (the kernel or the box server failed, not the code; the status is killed)',
];

/**
 * Why a run ended as it did, beyond what its code did by itself. `oom` with process `child` comes with any status,
 * including `ok`: the code continued without that process. `disk_full` and `pids_limit` come with `error`: the code
 * failed while the limit was reached. `pids_limit` with `killed` means that the box ended the run, or the processes it had
 * left behind, to make room for others.
 */
export const causeSchema = z
  .object({
    code: foreignText(64).meta({ description: `${causeCodes.join('; ')}.` }),
    detail: foreignText(2000),
    stage: z
      .enum(['interrupt', 'restart', 'box'])
      .optional()
      .meta({ description: 'What it took to stop the run: an interrupt, a new kernel, or the end of the box.' }),
    signal: foreignText(32).optional(),
    exitCode: exitCode.optional(),
    process: z.enum(['kernel', 'command', 'child']).optional().meta({
      description: 'Which process ran out of memory: the kernel with the variables, the command, or another process.',
    }),
    peakMemoryBytes: bytes.optional().meta({ description: 'The peak memory of the whole box until then.' }),
    quota: z
      .object({ name: foreignText(64), limit: amount, used: amount })
      .optional()
      .meta({
        description: "For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.",
      }),
    usedBytes: bytes.optional(),
    limitBytes: bytes.optional().meta({ description: 'The limit of memory for oom, of the volume for disk_full.' }),
  })
  .meta({ id: 'Cause' });

export type Cause = z.infer<typeof causeSchema>;
