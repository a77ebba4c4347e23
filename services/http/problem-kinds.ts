import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { ErrorCode } from '#contract';

/** What a kind of problem is, as its page tells. Texts are Markdown without anything but `code`. */
export interface ProblemKind {
  status: ContentfulStatusCode;
  title: string;
  meaning: string;
  /** What usually leads to it. */
  causes: readonly string[];
  remedy: string;
}

/** Every kind of problem: its status, and what the page says to which `type` leads. */
export const problemKinds: Record<ErrorCode, ProblemKind> = {
  invalid_request: {
    status: 400,
    title: 'Bad Request',
    meaning: 'Something in the request is not as it has to be. Nothing was done.',
    causes: [
      'a key, a parameter or a value that is not known, often a misspelt one',
      'a body that is not JSON: a line break or a `"` inside a string that is not written as `\\n` or `\\"`',
      'a limit over what the template allows, or a language, a template or a network that is not there',
    ],
    remedy:
      'Read `errors`: each has a `pointer` to the place and what is wrong there, with what was probably meant. ' +
      "`jq -n --rawfile code main.py '{$code}'` writes code as JSON; with `Content-Type: text/x-python` the body is the code itself.",
  },
  unauthorized: {
    status: 401,
    title: 'Unauthorized',
    meaning: 'The request has no key that is valid now.',
    causes: [
      'no key, or one without `Bearer` before it, in another header or in the query',
      'a key that is wrong, has expired or was revoked: the answer does not tell which',
      'a ticket that was used, is older than a minute, or is for another box',
    ],
    remedy:
      'Send `Authorization: Bearer cbx_…` or `X-API-Key: cbx_…`. The key of the first tenant is in the data folder, in `dev-key`.',
  },
  forbidden: {
    status: 403,
    title: 'Forbidden',
    meaning: 'The key is valid, but this may not be done with it.',
    causes: ['a key without the scope that the call needs', 'a tenant that is suspended', 'a page of another site'],
    remedy:
      '`GET /v1/caller` tells what a key may do. The operator makes keys with other scopes and lets a tenant go on.',
  },
  cpu_limit: {
    status: 403,
    title: 'Forbidden',
    meaning: 'The CPU time that the box has for its whole life is spent, so nothing new is run in it.',
    causes: ['`cpuSeconds` among the limits of the box, or of its template'],
    remedy: 'Fetch its files, which can still be had, and go on in a new box with more `cpuSeconds`.',
  },
  not_found: {
    status: 404,
    title: 'Not Found',
    meaning: 'There is nothing of this name, or it belongs to another tenant: the answer does not tell which.',
    causes: [
      'a path that no call has: the answer names the nearest one',
      'an id of another tenant, or of what was removed more than 7 days ago',
      'a file that is not in the box, or a port on which nothing listens',
    ],
    remedy: 'Compare the path with those at `/docs`, and the id with the list of what there is.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method Not Allowed',
    meaning: 'The path is right, the method is not.',
    causes: ['a GET where something is done, or a POST where something is read'],
    remedy: 'Use one of those that the header `Allow` names.',
  },
  conflict: {
    status: 409,
    title: 'Conflict',
    meaning: 'It cannot be done as things are now.',
    causes: [
      'a request with the same `Idempotency-Key` that is still in progress, or whose outcome nobody knows',
      'input for a run that does not wait for any',
      'a context that is busy, or a file where a folder is needed',
    ],
    remedy: 'Read what is there, and ask again after `Retry-After` where there is one.',
  },
  gone: {
    status: 410,
    title: 'Gone',
    meaning: 'The box has ended, and with it what was in it.',
    causes: ['it was deleted, was idle for too long, reached the end of its life, or its instance was lost'],
    remedy:
      '`GET /v1/boxes/{box}` tells the `cause`. Create a new box; `onIdle`, `idleSeconds` and `maxLifetimeSeconds` say how long it is kept.',
  },
  precondition_failed: {
    status: 412,
    title: 'Precondition Failed',
    meaning: 'The file is not the one that `If-Match` or `If-None-Match` speaks of. It was not changed.',
    causes: ['somebody else, or code in the box, has changed it meanwhile'],
    remedy: 'Read the file and its `ETag` again, and decide anew.',
  },
  too_large: {
    status: 413,
    title: 'Content Too Large',
    meaning: 'What was sent, or asked for, is over a bound.',
    causes: [
      'a JSON body over 128 KiB, or over 10 MiB where it carries code, input or files; or one with too many entries',
      'a file over the bound of the operation',
    ],
    remedy: 'Send files by `PUT …/files/{path}`, which is a stream without this bound.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported Media Type',
    meaning: 'The body is of a kind that is not taken here.',
    causes: ['a `Content-Type` that says something else than the body is, or a multipart body without a boundary'],
    remedy: 'Send one of the types that the call has at `/docs`.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'Range Not Satisfiable',
    meaning: 'The file does not have the bytes that `Range` asks for.',
    causes: ['a range behind the end of the file, often because the file has become shorter'],
    remedy: 'Ask for the size with `HEAD`, then for a range within it.',
  },
  upgrade_required: {
    status: 426,
    title: 'Upgrade Required',
    meaning: 'Here is a WebSocket, and the request asks for none.',
    causes: ['a plain GET, or a proxy that removes `Connection: Upgrade`'],
    remedy: 'Connect with a WebSocket client to `ws://` or `wss://`; let the proxy pass the headers on.',
  },
  idempotency_mismatch: {
    status: 422,
    title: 'Unprocessable Content',
    meaning: 'The `Idempotency-Key` was used before, with another request.',
    causes: ['a key that is not new for each thing to be done'],
    remedy: 'Take a new key for another request; send the same body again for the same one.',
  },
  too_many_requests: {
    status: 429,
    title: 'Too Many Requests',
    meaning: 'More is asked for at once, or in this minute, than is allowed.',
    causes: [
      'the requests per minute of the tenant',
      'too many wrong keys from one address',
      'too many open streams, sockets, terminals or runs',
    ],
    remedy: 'Wait for `Retry-After` seconds, or end what is no longer needed.',
  },
  quota_exceeded: {
    status: 429,
    title: 'Too Many Requests',
    meaning: 'A quota of the tenant is used up; `quota` tells which one, its limit and what is used.',
    causes: ['boxes that are kept though nobody needs them', 'the CPU time, or the executions, of the day'],
    remedy: 'End boxes, wait for `Retry-After`, or ask the operator for more.',
  },
  internal: {
    status: 500,
    title: 'Internal Server Error',
    meaning: 'Something went wrong inside the service. The request is not to blame.',
    causes: ['an error of CodeBox'],
    remedy: 'Tell the operator the `requestId`: the log has the rest under it.',
  },
  bad_gateway: {
    status: 502,
    title: 'Bad Gateway',
    meaning: 'A server behind CodeBox answered with what cannot be passed on.',
    causes: ['a server in the box that does not speak HTTP, or broke off its answer', 'a language model that refused'],
    remedy: 'Look at the server in the box, or at what `detail` says of the model.',
  },
  unavailable: {
    status: 503,
    title: 'Service Unavailable',
    meaning: 'What is needed does not work now, or has no room. Nothing was done.',
    causes: [
      'the database, the Docker daemon or the blob store does not answer: `/readyz` names it',
      'no room for a further box within the time that a request waits',
      'the gateway is stopping',
    ],
    remedy: 'Ask again after `Retry-After`, with an `Idempotency-Key` where something is started.',
  },
  timeout: {
    status: 504,
    title: 'Gateway Timeout',
    meaning: 'It took longer than a request waits. Of what was started it is not known whether it was done.',
    causes: ['a body that comes too slowly', 'a box, or a server in it, that does not answer in time'],
    remedy:
      'Read what became of it before doing it again, or ask with an `Idempotency-Key`, which makes asking again safe.',
  },
  disk_full: {
    status: 507,
    title: 'Insufficient Storage',
    meaning: 'The disk of the box has no room for it.',
    causes: ['files in `/mnt` up to `diskMb`, hidden ones such as caches of pip in the home folder too'],
    remedy: 'Remove files, or create a box with more `diskMb`.',
  },
};
