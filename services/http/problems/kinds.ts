import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { ErrorCode } from '#contract';

/** A kind of problem, as its page describes it. The texts are Markdown that uses nothing but `code`. */
export interface ProblemKind {
  status: ContentfulStatusCode;
  title: string;
  meaning: string;
  /** The usual causes. */
  causes: readonly string[];
  remedy: string;
}

/** Every kind of problem: its status, and the texts of the page that `type` links to. */
export const problemKinds: Record<ErrorCode, ProblemKind> = {
  invalid_request: {
    status: 400,
    title: 'Bad Request',
    meaning: 'Something in the request is invalid. Nothing was done.',
    causes: [
      'an unknown key, parameter or value, often a misspelt one',
      'a body that is not JSON: a line break or a `"` inside a string that is not written as `\\n` or `\\"`',
      'a limit above what the template allows, or a language, template or network that does not exist',
    ],
    remedy:
      'Read `errors`: each has a `pointer` to the place, what is wrong there, and often what was probably meant. ' +
      "`jq -n --rawfile code main.py '{$code}'` writes code as JSON; with `Content-Type: text/x-python` the body is the code itself.",
  },
  unauthorized: {
    status: 401,
    title: 'Unauthorized',
    meaning: 'The request has no valid key.',
    causes: [
      'no key, or one without `Bearer` before it, in another header or in the query',
      'a key that is wrong, has expired or was revoked: the response does not say which',
      'a ticket that was used, is older than a minute, or is for another box',
    ],
    remedy:
      'Send `Authorization: Bearer cbx_…` or `X-API-Key: cbx_…`. The key of the first tenant is in the data folder, in `dev-key`.',
  },
  forbidden: {
    status: 403,
    title: 'Forbidden',
    meaning: 'The key is valid, but does not permit this.',
    causes: ['a key without the scope that the call needs', 'a tenant that is suspended', 'a page of another site'],
    remedy:
      '`GET /v1/caller` shows what a key may do. The operator creates keys with other scopes and resumes suspended tenants.',
  },
  cpu_limit: {
    status: 403,
    title: 'Forbidden',
    meaning: 'The box has used up the CPU time of its whole life, so nothing new runs in it.',
    causes: [
      '`cpuSeconds` among the limits of the box, or of its template: single runs end there, and when several exceed it together, everything that runs in the box is stopped, and a box that goes on for half a minute is deleted',
    ],
    remedy: 'Download its files, which stay accessible, and continue in a new box with more `cpuSeconds`.',
  },
  not_found: {
    status: 404,
    title: 'Not Found',
    meaning: 'Nothing has this name, or it belongs to another tenant: the response does not say which.',
    causes: [
      'a path that no call has: the response names the nearest one',
      'an id of another tenant, or of something that was removed more than 7 days ago',
      'a file that is not in the box, or a port on which nothing listens',
    ],
    remedy: 'Compare the path with those at `/docs`, and the id with the list of existing ones.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method Not Allowed',
    meaning: 'The path exists, but not with this method.',
    causes: ['a GET where something is changed, or a POST where something is read'],
    remedy: 'Use one of the methods in the header `Allow`.',
  },
  conflict: {
    status: 409,
    title: 'Conflict',
    meaning: 'The current state does not allow it.',
    causes: [
      'a request with the same `Idempotency-Key` that is still in progress, or whose outcome is unknown',
      'input for a run that is not waiting for any',
      'a context that is busy, or a file where a folder is needed',
    ],
    remedy: 'Read the current state, and retry after `Retry-After` if the response has it.',
  },
  gone: {
    status: 410,
    title: 'Gone',
    meaning: 'The box has ended, together with everything in it.',
    causes: ['it was deleted, was idle for too long, reached the end of its life, or its instance was lost'],
    remedy:
      '`GET /v1/boxes/{box}` shows the `cause`. Create a new box; `onIdle`, `idleSeconds` and `maxLifetimeSeconds` say how long it is kept.',
  },
  precondition_failed: {
    status: 412,
    title: 'Precondition Failed',
    meaning: 'The file does not match `If-Match` or `If-None-Match`. It was not changed.',
    causes: ['another caller, or code in the box, has changed it meanwhile'],
    remedy: 'Read the file and its `ETag` again, and retry with that one.',
  },
  too_large: {
    status: 413,
    title: 'Content Too Large',
    meaning: 'The request, or what it would return, exceeds a limit.',
    causes: [
      'a JSON body over 128 KiB, or over 10 MiB where it may contain code, input or files; or one with too many entries',
      'a file over the limit of the operation',
    ],
    remedy: 'Send files by `PUT …/files/{path}`, which streams them without this limit.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported Media Type',
    meaning: 'The call does not accept a body of this type.',
    causes: ['a `Content-Type` that does not fit the body, or a multipart body without a boundary'],
    remedy: 'Send one of the types that `/docs` lists for the call.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'Range Not Satisfiable',
    meaning: 'The file does not have the bytes that `Range` asks for.',
    causes: ['a range beyond the end of the file, often because the file has become shorter'],
    remedy: 'Read the size with `HEAD`, then request a range within it.',
  },
  upgrade_required: {
    status: 426,
    title: 'Upgrade Required',
    meaning: 'The path is a WebSocket, and the request does not ask for one.',
    causes: ['a plain GET, or a proxy that removes `Connection: Upgrade`'],
    remedy: 'Connect with a WebSocket client to `ws://` or `wss://`; configure the proxy to pass the headers on.',
  },
  idempotency_mismatch: {
    status: 422,
    title: 'Unprocessable Content',
    meaning: 'The `Idempotency-Key` was used before for a different request.',
    causes: ['a key that is reused for another operation'],
    remedy: 'Use a new key for each new request; a repeated one has to have the same body.',
  },
  too_many_requests: {
    status: 429,
    title: 'Too Many Requests',
    meaning: 'There are more requests at once, or within a minute, than allowed.',
    causes: [
      'the requests per minute of the tenant',
      'too many wrong keys from one address',
      'too many open streams, sockets, terminals or runs',
      'bodies of open requests and messages of WebSockets that are too large together',
    ],
    remedy: 'Wait for `Retry-After` seconds, or close what is no longer needed.',
  },
  quota_exceeded: {
    status: 429,
    title: 'Too Many Requests',
    meaning: 'A quota of the tenant is used up; `quota` has its name, its limit and what is in use.',
    causes: ['boxes that nobody needs any more', 'the CPU time, or the executions, of the day'],
    remedy: 'Delete boxes, wait for `Retry-After`, or ask the operator for a higher quota.',
  },
  internal: {
    status: 500,
    title: 'Internal Server Error',
    meaning: 'Something failed inside the service. The request is not the cause.',
    causes: ['an error of CodeBox'],
    remedy: 'Report the `requestId` to the operator, who finds the details in the log.',
  },
  bad_gateway: {
    status: 502,
    title: 'Bad Gateway',
    meaning: 'A server behind CodeBox sent a response that cannot be passed on.',
    causes: [
      'a server in the box that does not speak HTTP, or interrupted its response',
      'a language model that refused',
    ],
    remedy: 'Check the server in the box, or read in `detail` what the model reported.',
  },
  unavailable: {
    status: 503,
    title: 'Service Unavailable',
    meaning: 'A part that is needed is unavailable, or has no capacity left. Nothing was done.',
    causes: [
      'the database, the Docker daemon, the API server of the cluster or the blob store does not respond: `/readyz` names it',
      'no capacity for another box within the time that a request waits',
      'bodies of open requests and messages of WebSockets that leave no memory for another one',
      'the gateway is stopping',
    ],
    remedy: 'Retry after `Retry-After`, with an `Idempotency-Key` if the request starts something.',
  },
  timeout: {
    status: 504,
    title: 'Gateway Timeout',
    meaning: 'It took longer than a request waits. Whether it was done is unknown.',
    causes: ['a body that arrives too slowly', 'a box, or a server in it, that does not respond in time'],
    remedy: 'Check the outcome before repeating it, or send an `Idempotency-Key`, which makes a repetition safe.',
  },
  disk_full: {
    status: 507,
    title: 'Insufficient Storage',
    meaning: 'The disk of the box is full.',
    causes: ['files of `diskMb` in total, including hidden ones such as the cache of pip in the home folder'],
    remedy: 'Delete files, or create a box with more `diskMb`.',
  },
};
