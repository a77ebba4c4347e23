import pg from 'pg';
import { CodeBoxError, type QuotaMet } from '#contract';

/** The SQLSTATE with which a trigger refuses a row over a quota; the detail of the error is the quota. */
const overQuotaState = 'CBQ01';

const sentences: Record<string, (quota: QuotaMet) => string> = {
  boxes: ({ limit, used }) => `The tenant has ${used} boxes and may have ${limit}.`,
  concurrentExecutions: ({ limit, used }) => `The tenant has ${used} executions in progress and may have ${limit}.`,
  cpuSecondsPerDay: ({ limit, used }) => `The tenant has used ${used} s of CPU time today and may use ${limit} s.`,
  storageMb: ({ limit, used }) =>
    `The boxes and volumes of the tenant have ${used} MiB of disk; with this one it would be over ${limit} MiB.`,
  volumes: ({ limit, used }) => `The tenant has ${used} volumes and may have ${limit}.`,
  volumesInCreation: () => 'Another volume of the tenant is being created.',
  templates: ({ limit, used }) => `The tenant has ${used} templates and may have ${limit}.`,
  requestsPerMinute: ({ limit }) => `The tenant may send ${limit} requests a minute.`,
};

/** The error of an operation that would exceed a quota of the tenant. */
export const overQuota = (quota: QuotaMet, retryAfterSeconds: number, cause?: unknown): CodeBoxError => {
  const text = sentences[quota.name]?.(quota) ?? 'The tenant has reached this quota.';
  return new CodeBoxError('quota_exceeded', text, { quota, retryAfterSeconds, ...(cause !== undefined && { cause }) });
};

/** Executions end sooner than boxes do. */
const retrySeconds = ({ name }: QuotaMet): number => (name === 'concurrentExecutions' ? 1 : 5);

/** Translates the error of a quota trigger; returns undefined for any other error. */
export const asOverQuota = (error: unknown): CodeBoxError | undefined => {
  if (!(error instanceof pg.DatabaseError) || error.code !== overQuotaState) return undefined;
  const quota = JSON.parse(error.detail ?? '{}') as QuotaMet;
  return overQuota(quota, retrySeconds(quota), error);
};
