import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { fileEntry, pageOf } from './examples.ts';

/** Descriptions and examples of the file operations. */
export const fileTexts: OperationTexts = {
  'GET /v1/boxes/{box}/files/{path}': {
    description:
      'Paths are relative to the working folder, /mnt/data. A folder (an empty path means the working folder) is listed as JSON, or ' +
      'returned as one archive with `as`. A file is returned as its bytes, with `ETag`, ranges and conditional requests.',
  },
  'HEAD /v1/boxes/{box}/files/{path}': {
    description: 'Returns the headers of the same GET, without the content.',
  },
  'PUT /v1/boxes/{box}/files/{path}': {
    description:
      'The body is the content of the file, streamed, of any length that the disk has room for. The file becomes visible when it is ' +
      'complete. With `If-Match` it replaces only that version; with `If-None-Match: *` it replaces nothing.',
    response: fileEntry,
  },
  'DELETE /v1/boxes/{box}/files/{path}': {
    description: 'Responds with 404 when nothing is at the path. A symbolic link is removed, not its target.',
  },
  'POST /v1/boxes/{box}/files': {
    description:
      'A multipart/form-data body uploads many files at once; each filename is a path. A JSON body performs the one operation that `op` ' +
      'names; extracted and fetched files count against the disk limit.',
    request: { op: 'copy', from: 'table.csv', to: 'reports/table.csv' },
    response: fileEntry,
  },
  'GET /v1/boxes/{box}/files:search': {
    description:
      '`name` is a glob, `content` a regular expression for lines; with both, only files that match `name` are searched.',
    response: { ...pageOf({ path: 'reports/table.csv', line: 3, column: 1, text: '2,4' }), complete: true },
  },
  'GET /v1/boxes/{box}/files:watch': {
    description:
      'Sends `ready`, then every change below `path`. A client that reconnects with its last `version` receives every change since, or ' +
      '`reset` when those are no longer kept: list the files again then.',
    response: { version: 7, type: 'create', path: 'reports/table.csv', entry: fileEntry },
  },
};
