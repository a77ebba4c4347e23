import type { HttpEnv } from '../../http/env.ts';
import type { Owner } from '../chats/owner.ts';

/** Variables that the agent's middleware sets for its handlers. */
export interface Env extends HttpEnv {
  Variables: HttpEnv['Variables'] & {
    owner: Owner;
    /** The counted name of the owner whose ticket the request has. */
    ticketOf?: string;
  };
}
