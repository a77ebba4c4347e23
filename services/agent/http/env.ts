import type { HttpEnv } from '../../http/env.ts';
import type { Owner } from '../chats/owner.ts';

/** What the middleware of the agent leaves for its handlers. */
export interface Env extends HttpEnv {
  Variables: HttpEnv['Variables'] & { owner: Owner };
}
