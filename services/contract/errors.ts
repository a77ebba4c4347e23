/** What went wrong, as a word that programs may branch on. It determines the HTTP status. */
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

/** The tenant's quota that was reached: what it allows, and what was in use. */
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
 * The one error that CodeBox throws. `message` is for the caller to read, so it contains no host path, container id,
 * SQL or stack trace; those belong into `cause`, which only the log sees.
 */
export class CodeBoxError extends Error {
  override readonly name = 'CodeBoxError';
  readonly code: ErrorCode;
  /** The faults in the input, for `invalid_request`. */
  readonly errors: readonly InputFault[];
  /** The quota, for `quota_exceeded`. */
  readonly quota: QuotaMet | undefined;
  /** When to try again, for 409, 429 and 503. */
  readonly retryAfterSeconds: number | undefined;
  /** In a client: the HTTP status of the response, if there was one. */
  readonly status: number | undefined;
  /** In a client: the id under which the gateway logged the request. */
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

/** Finds the CodeBoxError in what was thrown or in its causes; returns undefined when there is none. */
export const findCodeBoxError = (thrown: unknown): CodeBoxError | undefined => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error instanceof CodeBoxError) return error;
  }
  return undefined;
};

/** Whether the error is `unavailable`, so that a later attempt makes sense. */
export const isUnavailable = (thrown: unknown): boolean => findCodeBoxError(thrown)?.code === 'unavailable';
