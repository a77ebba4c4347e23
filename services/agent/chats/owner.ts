import type { Client } from '#contract';

/** The one who makes a request: new objects belong to this owner, and the gateway is called with this owner's key. */
export interface Owner {
  tenant: string;
  /** The end user of an app, or a visitor; null when the app names none. */
  user: string | null;
  /** Undefined for the agent's own key, which signed URLs need not carry. */
  key: string | undefined;
  /** A gateway client that uses that key. */
  client: Client;
}

/**
 * The name under which an owner is counted. The users of a tenant count together, as a key may name any number of users; each visitor counts
 * alone.
 */
export const countedName = ({ tenant, user, key }: Owner): string => (key === undefined ? `${tenant} ${user}` : tenant);
