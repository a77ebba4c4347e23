import { brokenProtocol } from './broken-protocol.ts';
import type { RawAnswer } from './client.ts';

/** The part of a file that was asked for: its first and last byte, from 0, and the size of the whole file. */
interface ByteRange {
  first: number;
  last: number;
  sizeBytes: number;
}

/** What a box says of a file, a folder or an archive before its bytes. */
export interface FileHead {
  kind: 'file' | 'folder' | 'archive';
  /** Of the bytes that follow, so of the range where there is one; undefined when only their end tells. */
  lengthBytes: number | undefined;
  etag: string | undefined;
  /** To the second. */
  modifiedAt: Date | undefined;
  /** Whether a part of it can be asked for. */
  hasRanges: boolean;
  /** The part that follows; undefined for all of it. */
  range: ByteRange | undefined;
  /** Whether the reader has it already, by the conditions. Then no bytes follow. */
  isUnchanged: boolean;
}

const kinds: Record<string, FileHead['kind']> = { directory: 'folder', archive: 'archive' };
const wholeNumber = /^\d{1,15}$/;

/** The head of an answer to a read. Throws `unavailable` with the reason `protocol` for what a box server never says. */
export const readFileHead = ({ status, headers }: RawAnswer): FileHead => {
  const one = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  const range = status === 206 ? readRange(one('content-range')) : undefined;
  if (status !== 200 && status !== 304 && range === undefined)
    throw brokenProtocol('The box sent an unexpected answer.');
  const length = one('content-length');
  const modifiedAt = new Date(one('last-modified') ?? Number.NaN);
  return {
    kind: kinds[one('x-codebox-type') ?? ''] ?? 'file',
    lengthBytes: length !== undefined && wholeNumber.test(length) ? Number(length) : undefined,
    etag: one('etag'),
    modifiedAt: Number.isNaN(modifiedAt.getTime()) ? undefined : modifiedAt,
    hasRanges: one('accept-ranges') === 'bytes',
    range,
    isUnchanged: status === 304,
  };
};

const readRange = (text: string | undefined): ByteRange | undefined => {
  const [, first, last, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(text ?? '') ?? [];
  return size === undefined ? undefined : { first: Number(first), last: Number(last), sizeBytes: Number(size) };
};

/** The size of a file that has not the bytes that were asked for; undefined when the box does not say. */
export const readRefusedSize = ({ headers }: RawAnswer): number | undefined => {
  const [, size] = /^bytes \*\/(\d{1,15})$/.exec(String(headers['content-range'])) ?? [];
  return size === undefined ? undefined : Number(size);
};
