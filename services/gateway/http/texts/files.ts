import type { OperationTexts } from '../../../http/operation-texts.ts';
import { fileEntry, pageOf } from './examples.ts';

/** Of files. */
export const fileTexts: OperationTexts = {
  'GET /v1/boxes/{box}/files/{path}': {
    description:
      'A path is relative to the working folder, /mnt/data. A folder, or the working folder with an empty path, is listed as JSON; ' +
      'with `as` it is one archive. A file is its bytes, with `ETag`, ranges and the conditions of HTTP.',
  },
  'HEAD /v1/boxes/{box}/files/{path}': {
    description: 'The same headers as of a GET, without the bytes.',
  },
  'PUT /v1/boxes/{box}/files/{path}': {
    description:
      'The body is the file, as a stream of any length that the disk has room for. It is seen by others when it is whole. With ' +
      '`If-Match` it takes the place of that version only, with `If-None-Match: *` of none.',
    response: fileEntry,
  },
  'DELETE /v1/boxes/{box}/files/{path}': {
    description: '404 when there is none. A link is removed, not what it leads to.',
  },
  'POST /v1/boxes/{box}/files': {
    description:
      'As multipart/form-data, where each filename is a path, many files at once. As JSON, one operation by `op`; what is extracted or ' +
      'fetched stays within the bounds of the disk.',
    request: { op: 'copy', from: 'table.csv', to: 'reports/table.csv' },
    response: fileEntry,
  },
  'GET /v1/boxes/{box}/files:search': {
    description:
      '`name` is a glob, `content` a regular expression for a line; with both, lines in files of such names.',
    response: { ...pageOf({ path: 'reports/table.csv', line: 3, column: 1, text: '2,4' }), complete: true },
  },
  'GET /v1/boxes/{box}/files:watch': {
    description:
      'Every change below `path`, beginning with `ready`. A reader that comes back with the last `version` has missed nothing, or is ' +
      'told by `reset` to look anew.',
    response: { version: 7, type: 'create', path: 'reports/table.csv', entry: fileEntry },
  },
};
