import type { Context } from 'hono';
import type { KeyScope } from '#contract';
import type { HttpEnv } from '../../http/env.ts';
import type { Reference } from '../store/reference.ts';

/** How the handler of a request with an Idempotency-Key reports its progress. */
interface Progress {
  /** The requested work may start from now on, unless an error states that it did not. Repeated requests join `reference`. */
  mayStart(reference?: Reference): Promise<void>;
  /** The requested work has started, whatever follows. */
  hasStarted(): Promise<void>;
  /** The work that had started is undone: nothing is left of it. */
  isUndone(): void;
}

/** The variables that the middleware of the gateway sets for its handlers. */
export interface Env extends HttpEnv {
  Variables: HttpEnv['Variables'] & {
    tenant: string;
    /** The id of the key that admitted the request, directly or through a ticket or a cookie. */
    keyId: string;
    /** The scopes of the key; null for all scopes. */
    scopes: readonly KeyScope[] | null;
    /** The end user whom the credential names; undefined for a key, which stands for its whole tenant. */
    endUser?: string;
    /** The id of the box that the request names, whatever its surface calls it. */
    box?: string;
    /** Set for a request with an Idempotency-Key: records what it may have started, and where that can be read. */
    progress?: Progress;
  };
}

/** Records the box of a request, for its log and for the error when the box does not respond. */
export const noteBox = (c: Context<Env>, box: string): void => {
  c.set('box', box);
  c.set('log', c.get('log').child({ box }));
};
