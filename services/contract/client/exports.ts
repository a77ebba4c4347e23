import { type CreateExport, type Export, exportPageSchema, exportSchema } from '../files/exports.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './transport.ts';

/** The response waits for up to 30 s. */
const createSeconds = 60;

/** Writes files of a box to a bucket, or to presigned URLs. */
export const createExports = (transport: Transport) => ({
  /** Resolves with an export that has ended, or still runs after 30 s; `state` says which. */
  create: (box: string, body: CreateExport, options?: CreateOptions): Promise<Export> =>
    transport.json(exportSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'exports'),
      json: body,
      creates: true,
      deadlineSeconds: createSeconds,
      options,
    }),

  read: (box: string, id: string, options?: CallOptions): Promise<Export> =>
    transport.json(exportSchema, { path: pathOf('boxes', box, 'exports', id), options }),

  /** Newest first. */
  list: (box: string, options?: CallOptions) =>
    transport.items(exportPageSchema, { path: pathOf('boxes', box, 'exports'), options }),

  /** Cancels an export; files that have arrived stay. */
  cancel: (box: string, id: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'exports', id), options }),
});
