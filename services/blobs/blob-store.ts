import type { Readable } from 'node:stream';

/** One blob as a list tells it. */
export interface BlobEntry {
  name: string;
  changedAt: Date;
}

/**
 * Where bytes are kept that outlive their box: a folder, or a bucket of some cloud. Names are `[a-z0-9/-]+`, unique for good: a
 * blob is written once and never changed.
 *
 * Errors: every method throws `CodeBoxError` with code `unavailable` when the store does not answer or refuses. All methods honour
 * `signal`.
 */
export interface BlobStore {
  /** A word for logs: what kind of store it is. */
  readonly kind: 'folder' | 's3' | 'azure';
  /** Writes a blob whole or not at all, in memory that does not grow with it. */
  put(name: string, content: Readable, signal: AbortSignal): Promise<void>;
  /** The bytes of a blob, to be read to the end or destroyed; `not_found` when there is none. */
  get(name: string, signal: AbortSignal): Promise<Readable>;
  /** Whether there is such a blob; false as well where nobody may know. */
  has(name: string, signal: AbortSignal): Promise<boolean>;
  /** Idempotent. */
  delete(name: string, signal: AbortSignal): Promise<void>;
  /** A page of all blobs, and where the next one begins. */
  list(cursor: string | undefined, signal: AbortSignal): Promise<{ items: BlobEntry[]; next?: string }>;
}
