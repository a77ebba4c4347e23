import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, type CreateExport, type InputFault, type Page, type PageQuery } from '#contract';
import type { Outbound } from '../../../outbound/outbound.ts';
import { newId } from '../../../postgres/id.ts';
import type { ExportRow, ExportStore, ExportSummaryRow } from '../../store/box/exports.ts';
import type { BoxRef } from '../box-ref.ts';
import { checkLiving } from '../life/box-state.ts';
import type { Directory } from '../life/directory.ts';
import type { Exporter } from './exporter.ts';
import { endpointOf } from './targets.ts';

export interface ExportsOptions {
  store: Pick<ExportStore, 'insert' | 'find' | 'list' | 'cancel'>;
  directory: Pick<Directory, 'find'>;
  outbound: Pick<Outbound, 'faultOf'>;
  exporter: Pick<Exporter, 'begin' | 'cancel' | 'ended'>;
}

const maxRunning = 4;
/** How long a response waits for the end of an export. */
const waitMs = 30_000;

/** Exports of files of boxes to stores of their tenants. */
export const createExports = ({ store, directory, outbound, exporter }: ExportsOptions) => {
  const find = async (ref: BoxRef, id: string): Promise<ExportRow> => {
    await directory.find(ref);
    const row = await store.find(ref.box, id);
    if (!row) throw noExport();
    return row;
  };

  /** Throws `invalid_request` for a store in the operator's network. */
  const checkTargets = ({ files = [], s3 }: CreateExport): void => {
    const urls = files.map(({ url }, index): [string, string] => [`/files/${index}/url`, url]);
    if (s3) urls.push(['/s3/endpoint', endpointOf(s3)]);
    const errors = urls.flatMap(([pointer, url]): InputFault[] => {
      const detail = outbound.faultOf(url);
      return detail === undefined ? [] : [{ pointer, detail }];
    });
    if (errors.length > 0) throw new CodeBoxError('invalid_request', 'The store cannot be reached.', { errors });
  };

  return {
    find,

    /**
     * Begins an export, and waits for its end for some time unless it is detached. `onAccepted` is given when the id has to be recorded
     * before it begins.
     */
    async create(
      ref: BoxRef,
      ask: CreateExport,
      { leave, onAccepted }: { leave: AbortSignal; onAccepted?: ((id: string) => Promise<void>) | undefined },
    ): Promise<ExportRow> {
      checkTargets(ask);
      checkLiving(await directory.find(ref));
      const id = newId('exp');
      await onAccepted?.(id);
      const row = await exporter.begin(id, ref, ask, () =>
        store.insert({ id, tenantId: ref.tenant, boxId: ref.box, target: targetOf(ask) }, maxRunning),
      );
      if (!row)
        throw new CodeBoxError('too_many_requests', `The tenant has ${maxRunning} exports that run.`, {
          retryAfterSeconds: 10,
        });
      if (ask.detach) return row;
      const timer = new AbortController();
      const over = AbortSignal.any([leave, timer.signal]);
      await Promise.race([exporter.ended(id), sleep(waitMs, undefined, { signal: over }).catch(() => {})]);
      timer.abort();
      // It has begun, whatever follows.
      return await find(ref, id).catch(() => row);
    },

    async list(ref: BoxRef, query: PageQuery): Promise<Page<ExportSummaryRow>> {
      await directory.find(ref);
      return await store.list(ref.box, query);
    },

    /** Has an export that runs end soon, at whichever gateway; files that have arrived stay. */
    async cancel(ref: BoxRef, id: string): Promise<void> {
      await directory.find(ref);
      if (!(await store.cancel(ref.box, id))) throw noExport();
      exporter.cancel(id);
    },
  };
};

export type Exports = ReturnType<typeof createExports>;

const noExport = () => new CodeBoxError('not_found', 'There is no such export.');

const targetOf = ({ s3 }: CreateExport): string | null =>
  s3 ? [endpointOf(s3), s3.bucket, s3.prefix?.replace(/\/$/, '')].filter(Boolean).join('/') : null;
