import type { Readable } from 'node:stream';

/** One blob of a list. */
export interface BlobEntry {
  name: string;
  changedAt: Date;
}

/**
 * Storage for bytes that outlive their box: a folder, or a bucket of a cloud. Names are `[a-z0-9/-]+` and never reused:
 * a blob is written once and never changed.
 *
 * Errors: every method throws `CodeBoxError` with code `unavailable` when the store does not respond or refuses. All
 * methods honour `signal`.
 */
export interface BlobStore {
  /** The kind of store, for logs. */
  readonly kind: 'folder' | 's3' | 'azure';
  /** Writes a blob whole or not at all, in memory that does not grow with it. */
  put(name: string, content: Readable, signal: AbortSignal): Promise<void>;
  /** Resolves with the bytes of a blob, to be read to the end or destroyed; throws `not_found` when there is none. */
  get(name: string, signal: AbortSignal): Promise<Readable>;
  /** Whether the blob exists; also false if the store refuses access. */
  has(name: string, signal: AbortSignal): Promise<boolean>;
  /** Idempotent. */
  delete(name: string, signal: AbortSignal): Promise<void>;
  /** A page of all blobs, and the cursor of the next one. */
  list(cursor: string | undefined, signal: AbortSignal): Promise<{ items: BlobEntry[]; next?: string }>;
}
