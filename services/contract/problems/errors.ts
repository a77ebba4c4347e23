/** The codes of errors, on which programs may branch. Each determines the HTTP status. */
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

/**
 * Why it was refused, where one code has several reasons that programs distinguish. Each belongs to one code; an error of a code may
 * have none.
 */
export const errorReasons = [
  'code_running',
  'box_hibernated',
  'box_changing',
  'task_called_off',
  'key_in_use',
  'effect_unknown',
  'answer_not_kept',
  'not_waiting',
  'context_busy',
  'kernel_start',
  'protocol',
  'node_silent',
  'image_unavailable',
  'gpu_unavailable',
  'box_refused',
  'volume_missing',
  'volume_in_use',
  'volumes_full',
  'volumes_unsafe',
] as const;

export type ErrorReason = (typeof errorReasons)[number];

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
  reason?: ErrorReason | undefined;
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
  /** Undefined where the code is sufficient. */
  readonly reason: ErrorReason | undefined;
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
    this.reason = options.reason;
    this.errors = options.errors ?? [];
    this.quota = options.quota;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.status = options.status;
    this.requestId = options.requestId;
  }
}

/** Returns the first CodeBoxError among a thrown value and its causes; undefined when there is none. */
export const findCodeBoxError = (thrown: unknown): CodeBoxError | undefined => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error instanceof CodeBoxError) return error;
  }
  return undefined;
};

/** Whether a CodeBoxError of this code was thrown and, where one is given, for this reason. */
export const hasCode = (thrown: unknown, code: ErrorCode, reason?: ErrorReason): thrown is CodeBoxError =>
  thrown instanceof CodeBoxError && thrown.code === code && (reason === undefined || thrown.reason === reason);

/** Whether the error is `unavailable`, so that a later attempt makes sense. */
export const isUnavailable = (thrown: unknown): boolean => findCodeBoxError(thrown)?.code === 'unavailable';
