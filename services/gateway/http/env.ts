import type { KeyScope } from '#contract';
import type { HttpEnv } from '../../http/env.ts';
import type { Progress } from './idempotency.ts';

/** What the middleware of the gateway leaves for its handlers. */
export interface Env extends HttpEnv {
  Variables: HttpEnv['Variables'] & {
    tenant: string;
    /** The key that let the request in, also where a ticket or a cookie stood for it. */
    keyId: string;
    /** What the key may do; null for everything. */
    scopes: readonly KeyScope[] | null;
    /** Set while a request carries an Idempotency-Key: is told what it may have started, and where that can be read. */
    progress?: Progress;
  };
}
