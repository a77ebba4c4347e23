/** What went wrong, in a word that programs may branch on. The HTTP status follows from it. */
export const errorCodes = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'not_found',
  'gone',
  'method_not_allowed',
  'conflict',
  'idempotency_mismatch',
  'precondition_failed',
  'too_large',
  'unsupported_media_type',
  'range_not_satisfiable',
  'upgrade_required',
  'too_many_requests',
  'quota_exceeded',
  'disk_full',
  'bad_gateway',
  'cpu_limit',
  'unavailable',
  'timeout',
  'internal',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

/** One fault in the input: a JSON pointer into the body, or `/query/…`, `/path/…`, `/headers/…`. */
export interface InputFault {
  pointer: string;
  detail: string;
}

/** A quota of the tenant that was met: what it allows, and what was in use. */
export interface QuotaMet {
  name: string;
  limit: number;
  used: number;
}

export interface CodeBoxErrorOptions {
  cause?: unknown;
  quota?: QuotaMet;
  errors?: readonly InputFault[];
  retryAfterSeconds?: number;
  status?: number;
  requestId?: string;
}

/**
 * The one error that CodeBox throws. `message` is for the caller to read, so it holds no host path, id of a container,
 * SQL or stack; those belong into `cause`, which only the log sees.
 */
export class CodeBoxError extends Error {
  override readonly name = 'CodeBoxError';
  readonly code: ErrorCode;
  /** The faults in the input, for `invalid_request`. */
  readonly errors: readonly InputFault[];
  /** For `quota_exceeded`. */
  readonly quota: QuotaMet | undefined;
  /** When to try again, for 409, 429 and 503. */
  readonly retryAfterSeconds: number | undefined;
  /** In a client: the status of the answer, where there was one. */
  readonly status: number | undefined;
  /** In a client: by which the gateway's log tells of it. */
  readonly requestId: string | undefined;

  constructor(code: ErrorCode, message: string, options: CodeBoxErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? [];
    this.quota = options.quota;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.status = options.status;
    this.requestId = options.requestId;
  }
}

/** The CodeBoxError that is, or caused, what was thrown; undefined when there is none. */
export const findCodeBoxError = (thrown: unknown): CodeBoxError | undefined => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error instanceof CodeBoxError) return error;
  }
  return undefined;
};

/** Whether something did not answer, so that asking again later makes sense. */
export const isUnavailable = (thrown: unknown): boolean => findCodeBoxError(thrown)?.code === 'unavailable';
