import type { Context } from 'hono';
import type { BoxRow } from '../../../boxes/life/directory.ts';
import type { Env } from '../../../http/env.ts';
import { toSandboxId } from '../address.ts';
import type { Tokens } from '../tokens.ts';
import { toNames } from './sandbox.ts';

export interface AccessOptions {
  tokens: Tokens;
  /** The domain below which the ports of sandboxes have hosts. */
  domain: string;
}

/** Returns how the caller of a request reaches the inside of a sandbox. */
export const accessTo = (c: Context<Env>, row: BoxRow, { tokens, domain }: AccessOptions) => {
  const caller = { tenantId: row.tenantId, keyId: c.get('keyId') };
  const sandboxID = toSandboxId(row.id);
  // Below `localhost` the port of the gateway is a part of every host.
  const port = domain === 'localhost' ? (/:\d+$/.exec(c.req.header('host') ?? '')?.[0] ?? '') : '';
  return {
    envdAccessToken: tokens.issue('envd', caller, sandboxID),
    trafficAccessToken: tokens.issue('traffic', caller, sandboxID),
    domain: `${domain}${port}`,
  };
};

/** Returns a sandbox as the response to its creation. */
export const toSandbox = (c: Context<Env>, row: BoxRow, options: AccessOptions) => ({
  ...toNames(row),
  ...accessTo(c, row, options),
});
