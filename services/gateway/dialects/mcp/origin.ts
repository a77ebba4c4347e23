import { localhostAllowedOrigins, validateOriginHeader } from '@modelcontextprotocol/server';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { Env } from '../../http/env.ts';

/**
 * Throws `forbidden` for a request from a page of another host than those of this machine and the given ones: a page could have bound its
 * own name to the address of the gateway.
 */
export const checkOrigin = (c: Context<Env>, hosts: readonly string[]): void => {
  const { ok } = validateOriginHeader(c.req.header('origin') ?? null, [...localhostAllowedOrigins(), ...hosts]);
  if (!ok) throw new CodeBoxError('forbidden', 'This origin is not allowed: see CODEBOX_MCP_ORIGINS.');
};
