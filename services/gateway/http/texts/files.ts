import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, fileEntry, ids, pageOf } from './examples.ts';

const link = {
  id: ids.link,
  box: ids.box,
  path: 'reports/table.csv',
  method: 'GET',
  once: true,
  maxBytes: null,
  download: null,
  createdAt: at,
  expiresAt: at,
  usedAt: null,
};

const summary = {
  id: ids.export,
  box: ids.box,
  state: 'done',
  to: 'https://s3.eu-central-1.amazonaws.com/my-bucket/runs/17',
  fileCount: 1,
  sizeBytes: 18,
  skipped: 0,
  failure: null,
  createdAt: at,
  endedAt: at,
};
const exported = {
  ...summary,
  files: [{ path: 'reports/table.csv', key: 'runs/17/reports/table.csv', sizeBytes: 18, etag: '"9e107d9d372bb682"' }],
};

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
  'POST /v1/boxes/{box}/links': {
    description:
      'Whoever has the `url`, a path at this gateway, may read (or with `method: PUT` write) the file without a key. The file need not ' +
      'exist yet. A link ends when it expires, when it is revoked, and with the key that created it and its box; with `once` after one use.',
    request: { path: 'reports/table.csv', once: true, expiresInSeconds: 600 },
    response: { ...link, url: `/v1/links/${ids.token}` },
  },
  'GET /v1/boxes/{box}/links': {
    description: 'Links that have expired are listed for another day.',
    response: pageOf(link),
  },
  'DELETE /v1/boxes/{box}/links/{link}': {
    description: 'Its next use is refused with 401. A download that has begun continues.',
  },
  'GET /v1/links/{token}': {
    description:
      'The file is sent as a download that no browser shows in the origin of the gateway. 410 for a link that has expired or was used.',
  },
  'HEAD /v1/links/{token}': {
    description: 'Returns the headers of the same GET, and does not use up a link that is valid once.',
  },
  'PUT /v1/links/{token}': {
    description: 'The body is the content of the file. 413 for more than the `maxBytes` of the link.',
    response: fileEntry,
  },
  'POST /v1/boxes/{box}/exports': {
    description:
      'Files are written to `files[].url` by one PUT each, or as objects of the bucket in `s3`: each as a whole or not at all. The response ' +
      'waits for the end for up to 30 s (201); an export that goes on (202) is read with GET. A store has to be on the internet, or in a ' +
      'network that the operator allows. Keys and URLs are not stored, so an export whose gateway ends fails as `interrupted`.',
    request: {
      paths: ['reports'],
      s3: {
        bucket: 'my-bucket',
        prefix: 'runs/17',
        region: 'eu-central-1',
        accessKeyId: 'AKIDEXAMPLE',
        secretAccessKey: 'secret',
      },
    },
    response: exported,
  },
  'GET /v1/boxes/{box}/exports': {
    description: 'Exports are listed for 7 days after their end.',
    response: pageOf(summary),
  },
  'GET /v1/boxes/{box}/exports/{export}': {
    description: 'While it runs, `files` has what has arrived up to some seconds ago.',
    response: exported,
  },
  'DELETE /v1/boxes/{box}/exports/{export}': {
    description: 'Files that have arrived stay. An export that has ended stays as it is.',
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
