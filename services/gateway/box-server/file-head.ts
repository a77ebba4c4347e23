import type { RawResponse } from './client.ts';
import { brokenProtocol } from './protocol/broken-protocol.ts';

/** The requested part of a file: its first and last byte, from 0, and the size of the whole file. */
interface ByteRange {
  first: number;
  last: number;
  sizeBytes: number;
}

/** The metadata of a file, a folder or an archive that precedes its content. */
export interface FileHead {
  kind: 'file' | 'folder' | 'archive';
  /** The length of the content that follows (that of the range, if there is one); undefined when it is not known in advance. */
  lengthBytes: number | undefined;
  /** The media type that the box derives from the name, such as `text/csv`. */
  mediaType: string | undefined;
  etag: string | undefined;
  /** With a precision of one second. */
  modifiedAt: Date | undefined;
  /** Whether range requests are supported. */
  hasRanges: boolean;
  /** The part that follows; undefined for the whole file. */
  range: ByteRange | undefined;
  /** Whether the conditions of the request match the version that the reader has. Then no content follows. */
  isUnchanged: boolean;
}

const kinds: Record<string, FileHead['kind']> = { directory: 'folder', archive: 'archive' };
const wholeNumber = /^\d{1,15}$/;
const mediaType = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;

/** Reads the head of the response to a file read. Throws `unavailable` with the reason `protocol` for an invalid head. */
export const readFileHead = ({ status, headers }: RawResponse): FileHead => {
  const one = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  const range = status === 206 ? readRange(one('content-range')) : undefined;
  if (status !== 200 && status !== 304 && range === undefined)
    throw brokenProtocol('The box sent an invalid response.');
  const length = one('content-length');
  const type = one('content-type') ?? '';
  const modifiedAt = new Date(one('last-modified') ?? Number.NaN);
  return {
    kind: kinds[one('x-codebox-type') ?? ''] ?? 'file',
    lengthBytes: length !== undefined && wholeNumber.test(length) ? Number(length) : undefined,
    mediaType: mediaType.test(type) ? type : undefined,
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

/** Reads the size of a file from the response to an unsatisfiable range; undefined when the box does not give it. */
export const readRefusedSize = ({ headers }: RawResponse): number | undefined => {
  const [, size] = /^bytes \*\/(\d{1,15})$/.exec(String(headers['content-range'])) ?? [];
  return size === undefined ? undefined : Number(size);
};
