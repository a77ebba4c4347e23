import { CodeBoxError } from '#contract';
import type { BoxRow } from '../../../boxes/life/directory.ts';
import { toSandboxId } from '../address.ts';
import { isSnapshot, readAsked } from './marks.ts';

/** The version of E2B's daemon whose features are served. Clients themselves refuse calls that need a later one. */
export const envdVersion = '0.6.2';

/** Maps the states of sandboxes to those of boxes. */
export const boxStates = {
  running: ['creating', 'ready'],
  paused: ['paused', 'hibernated'],
} as const satisfies Record<string, readonly BoxRow['state'][]>;

export const isPaused = ({ state }: Pick<BoxRow, 'state'>): boolean => boxStates.paused.some((one) => one === state);

/** Whether a sandbox pauses itself when it is not used, instead of ending. */
export const pausesItself = ({ onIdle }: Pick<BoxRow, 'onIdle'>): boolean => onIdle !== 'delete';

/** Throws `not_found` for a sandbox that has ended, and for a snapshot. */
export const requireSandbox = (row: BoxRow): BoxRow => {
  if (row.endedAt === null && !isSnapshot(row)) return row;
  throw new CodeBoxError('not_found', `The sandbox ${toSandboxId(row.id)} was not found.`);
};

const endOf = (row: BoxRow): Date =>
  pausesItself(row) && !isPaused(row) ? new Date(row.lastActiveAt.getTime() + row.idleSeconds * 1000) : row.expiresAt;

/** Returns what names a sandbox and its template. */
export const toNames = (row: BoxRow) => {
  const { template } = readAsked(row);
  return { templateID: template, alias: template, sandboxID: toSandboxId(row.id), clientID: 'codebox', envdVersion };
};

/** Returns the variables by which programs notice where they run, and by which tables are shown with their data. */
export const toEnvironment = (row: BoxRow) => ({
  E2B_SANDBOX: 'true',
  E2B_SANDBOX_ID: toSandboxId(row.id),
  E2B_TEMPLATE_ID: readAsked(row).template,
  CODEBOX_TABLES: 'true',
});

/** Converts a box to a sandbox in a list. */
export const toListed = (row: BoxRow) => ({
  ...toNames(row),
  startedAt: row.createdAt.toISOString(),
  endAt: endOf(row).toISOString(),
  // A share of a CPU counts as one, because clients expect whole numbers.
  cpuCount: Math.ceil(row.limits.cpus),
  memoryMB: row.limits.memoryMb,
  diskSizeMB: row.limits.diskMb,
  metadata: readAsked(row).metadata,
  state: isPaused(row) ? ('paused' as const) : ('running' as const),
  volumeMounts: [],
});
