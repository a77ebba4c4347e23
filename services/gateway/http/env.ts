import type { Context } from 'hono';
import type { KeyScope } from '#contract';
import type { HttpEnv } from '../../http/env.ts';

/** What the handler of a request with an Idempotency-Key tells of how far it has come. */
interface Progress {
  /** From now on what was asked for may happen: only a refusal tells that it did not. */
  mayStart(location?: string): Promise<void>;
  /** It happened, whatever comes now. Repeated requests are joined to `location`. */
  hasStarted(location?: string): Promise<void>;
  /** What had begun is undone: nothing is left of it. */
  isUndone(): void;
}

/** What the middleware of the gateway leaves for its handlers. */
export interface Env extends HttpEnv {
  Variables: HttpEnv['Variables'] & {
    tenant: string;
    /** The key that let the request in, also where a ticket or a cookie stood for it. */
    keyId: string;
    /** What the key may do; null for everything. */
    scopes: readonly KeyScope[] | null;
    /** The id of the box that the request names, whatever its surface calls it. */
    box?: string;
    /** Set while a request carries an Idempotency-Key: is told what it may have started, and where that can be read. */
    progress?: Progress;
  };
}

/** Notes which box a request is about, for its log and for whatever is asked about a box that does not respond. */
export const noteBox = (c: Context<Env>, box: string): void => {
  c.set('box', box);
  c.set('log', c.get('log').child({ box }));
};
