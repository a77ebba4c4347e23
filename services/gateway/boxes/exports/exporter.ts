import { addAbortSignal, Readable } from 'node:stream';
import { type CreateExport, type ExportedFile, type ExportFailure, toPlain } from '#contract';
import type { Outbound } from '../../../outbound/outbound.ts';
import { onceThere } from '../../../postgres/away.ts';
import type { Background } from '../../../waiting/background.ts';
import { orAborted } from '../../../waiting/or-aborted.ts';
import { createShares } from '../../../waiting/shares.ts';
import type { ExportOutcome, ExportStore } from '../../store/box/exports.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { Files, Opened } from '../reach/files.ts';
import { ExportFailed } from './export-failed.ts';
import { asReadFailure, type Selected, select } from './selection.ts';
import { asExportFailed, createBucket, type Target, urlTarget } from './targets.ts';

export interface ExporterOptions {
  store: Pick<ExportStore, 'progress' | 'goesOn' | 'finish' | 'unfinished' | 'fail'>;
  files: Pick<Files, 'open' | 'stat' | 'list'>;
  outbound: Pick<Outbound, 'send'>;
  activity: Activity;
  background: Background;
}

/** Files that a gateway exports at once, each with up to 5 MiB in memory. The stores of some tenants may be slow for an hour. */
const atOnce = { places: 16, each: 4, kept: 4 };
const defaultSeconds = 600;
const progressMs = 2000;
const pageSize = 500;
/** How much of the list of files is recorded. */
const maxListBytes = 1024 * 1024;
/** How much text of a box or a store is recorded. */
const maxText = 1000;

/** A file and where it goes; `key` is null for a URL. */
interface Item extends Selected {
  key: string | null;
  target: Target;
}

/** An export that this gateway performs. */
interface Work {
  canceled: AbortController;
  ended: Promise<void>;
}

/**
 * Performs exports in the background. What was asked for, with its keys, is only in the memory of one gateway: an export whose gateway
 * dies is not repeated, but fails as `interrupted`.
 */
export const createExporter = ({ store, files, outbound, activity, background }: ExporterOptions) => {
  const working = new Map<string, Work>();
  const share = createShares(atOnce);

  const write = async (ref: BoxRef, { path, shown, key, target }: Item, signal: AbortSignal): Promise<ExportedFile> => {
    const opening = files.open(ref, path);
    const opened = await orAborted(opening, signal).catch((error) => {
      // It may still come, and is not read then.
      opening.then(close, () => {});
      throw asReadFailure(error, shown);
    });
    if (opened.kind !== 'file') {
      close(opened);
      throw new ExportFailed('not_found', 'There is no file at this path.', shown);
    }
    const { body, lengthBytes, mediaType = 'application/octet-stream' } = opened;
    try {
      if (lengthBytes === undefined || opened.range || opened.isUnchanged) throw notSent(shown);
      if (lengthBytes > target.maxBytes)
        throw new ExportFailed('too_large', `The file has more than ${target.maxBytes} bytes.`, shown);
      const content = addAbortSignal(signal, namingFailures(body, shown));
      const etag = await target.put({ body: content, lengthBytes, mediaType }, signal);
      const isEncoded = shown !== path;
      return {
        path: isEncoded ? path.toWellFormed() : path,
        ...(isEncoded && { encodedPath: shown }),
        key,
        sizeBytes: lengthBytes,
        etag: etag && toPlain(etag.slice(0, maxText)),
      };
    } catch (error) {
      const failed = asExportFailed(error);
      throw failed ? new ExportFailed(failed.code, failed.message, failed.path ?? shown) : error;
    } finally {
      body.destroy();
    }
  };

  /** Writes all files, some at once. The first failure ends the others, which then leave nothing. */
  const writeAll = async (
    ref: BoxRef,
    items: readonly Item[],
    signal: AbortSignal,
    onFile: (file: ExportedFile) => void,
  ) => {
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const results = await Promise.allSettled(
      items.map((item) =>
        share(ref.tenant, either, async () => onFile(await write(ref, item, either))).catch((error: unknown) => {
          stop.abort(error);
          throw error;
        }),
      ),
    );
    signal.throwIfAborted();
    if (results.some(({ status }) => status === 'rejected')) throw stop.signal.reason;
  };

  const perform = async (ref: BoxRef, ask: CreateExport, signal: AbortSignal, report: Report): Promise<void> => {
    if (ask.files) {
      const items = ask.files.map(({ path, url, headers = {} }) => ({
        path,
        shown: path,
        key: null,
        target: urlTarget(outbound, url, headers),
      }));
      return await writeAll(ref, items, signal, report.onFile);
    }
    const { paths = [], s3 } = ask;
    if (!s3) return;
    const { selected, skipped } = await select(files, ref, paths, signal);
    report.skip(skipped);
    const bucket = await createBucket(outbound, s3);
    try {
      const prefix = s3.prefix?.replace(/([^/])$/, '$1/') ?? '';
      const items = selected.map((file) => {
        const key = prefix + file.shown;
        return { ...file, key, target: bucket.object(key) };
      });
      await writeAll(ref, items, signal, report.onFile);
    } finally {
      bucket.close();
    }
  };

  const run = async (id: string, ref: BoxRef, ask: CreateExport, canceled: AbortController): Promise<void> => {
    const seconds = ask.timeoutSeconds ?? defaultSeconds;
    const late = AbortSignal.timeout(seconds * 1000);
    const signal = AbortSignal.any([background.signal, canceled.signal, late]);
    const report = createReport();
    let noted = 0;
    const note = background.oneAtATime('note the progress of an export', async () => {
      const { files: _, ...counts } = report.outcome;
      const isNew = noted !== counts.fileCount;
      noted = counts.fileCount;
      // It may have been canceled at another gateway.
      if (!(await (isNew ? store.progress(id, counts) : store.goesOn(id)))) canceled.abort();
    });
    const timer = setInterval(note, progressMs);
    const release = activity.hold(ref.box);
    let failure: ExportFailure | null = null;
    let unforeseen: unknown;
    try {
      await perform(ref, ask, signal, report);
    } catch (error) {
      const failed = background.signal.aborted
        ? interrupted
        : canceled.signal.aborted
          ? canceledByRequest
          : late.aborted
            ? new ExportFailed('timeout', `The export took longer than ${seconds} s.`)
            : asExportFailed(error);
      if (!failed) unforeseen = error;
      const { code, message, path } = failed ?? new ExportFailed('internal', 'The gateway failed to export the files.');
      failure = { code, detail: toPlain(message.slice(0, maxText)), path: path && toPlain(path) };
    } finally {
      clearInterval(timer);
      release();
    }
    await onceThere(() => store.finish(id, report.outcome, failure), background.signal);
    if (unforeseen !== undefined) throw unforeseen;
  };

  return {
    /** Writes the row of an export, then performs it in the background. Resolves with the row, and undefined if none was written. */
    async begin<T>(
      id: string,
      ref: BoxRef,
      ask: CreateExport,
      insert: () => Promise<T | undefined>,
    ): Promise<T | undefined> {
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      const canceled = new AbortController();
      // Before the row is written: a row of this gateway without its work is one that was abandoned.
      working.set(id, { canceled, ended });
      const leave = () => {
        working.delete(id);
        resolve();
      };
      const row = await insert().catch((error: unknown) => {
        leave();
        throw error;
      });
      if (row === undefined) leave();
      else background.run('export files', () => run(id, ref, ask, canceled).finally(leave));
      return row;
    },

    /** Ends an export if it is performed here. */
    cancel: (id: string): void => working.get(id)?.canceled.abort(),

    /** Resolves when an export that is performed here has ended. */
    ended: (id: string): Promise<void> => working.get(id)?.ended ?? Promise.resolve(),

    /** Fails exports whose gateway has died, and those that this gateway has given up without being able to write that. */
    sweep: background.oneAtATime('look after the exports', async () => {
      for (let page: string[] | undefined; page === undefined || page.length === pageSize; ) {
        page = await store.unfinished(page?.at(-1) ?? '', pageSize);
        // Looked up after the rows were read: one of this gateway is worked on before its row is written.
        const abandoned = page.filter((id) => !working.has(id));
        if (abandoned.length > 0) await store.fail(abandoned, asFailure(interrupted));
      }
    }),
  };
};

export type Exporter = ReturnType<typeof createExporter>;

const notSent = (shown: string) => new ExportFailed('box_unavailable', 'The box did not send the whole file.', shown);

/** Passes a body on; if the box breaks it off, its reader is told so, and does not mistake that for a failure of the store. */
const namingFailures = (body: Readable, shown: string): Readable => {
  async function* pass(): AsyncGenerator<Buffer> {
    try {
      yield* body as AsyncIterable<Buffer>;
    } catch {
      throw notSent(shown);
    }
  }
  const content = Readable.from(pass(), { objectMode: false });
  // An error that comes after its reader has left would end the process.
  return content.on('error', () => {});
};

const close = (opened: Opened): void => {
  if (opened.kind !== 'folder') opened.body.destroy();
};

/** Gathers what an export has done. The list of its files is cut; the counts are of all. */
const createReport = () => {
  const outcome: ExportOutcome = { files: [], fileCount: 0, sizeBytes: 0, skipped: 0 };
  let listBytes = 0;
  return {
    outcome,
    skip: (entries: number): void => {
      outcome.skipped = entries;
    },
    onFile: (file: ExportedFile): void => {
      outcome.fileCount += 1;
      outcome.sizeBytes += file.sizeBytes;
      listBytes += Buffer.byteLength(JSON.stringify(file));
      if (listBytes <= maxListBytes) outcome.files.push(file);
    },
  };
};

type Report = ReturnType<typeof createReport>;

const asFailure = ({ code, message, path }: ExportFailed): ExportFailure => ({ code, detail: message, path });

const interrupted = new ExportFailed(
  'interrupted',
  'The gateway that exported the files ended. Request the export again.',
);
const canceledByRequest = new ExportFailed('canceled', 'The export was canceled.');
