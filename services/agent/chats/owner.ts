import type { Client } from '#contract';

/** Who asks: what is made belongs to them, and the gateway is asked with their key. */
export interface Owner {
  tenant: string;
  /** The end user of an app, or a visitor; null for an app that names none. */
  user: string | null;
  /** Undefined for the agent's own, which addresses that it signs need not carry. */
  key: string | undefined;
  /** Speaks with that key. */
  client: Client;
}
