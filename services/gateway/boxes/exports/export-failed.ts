import type { ExportFailureCode } from '#contract';

/** Why an export fails. The message is for the tenant: it has neither keys nor the URLs that the caller gave. */
export class ExportFailed extends Error {
  readonly code: ExportFailureCode;
  readonly path: string | null;

  constructor(code: ExportFailureCode, message: string, path: string | null = null) {
    super(message);
    this.code = code;
    this.path = path;
  }
}
