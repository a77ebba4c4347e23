import type { Context } from 'hono';
import type { Owner } from '../chats/owner.ts';
import type { Env } from '../http/env.ts';

/** The origin under which the caller reaches the agent. A proxy in front may report that it is https. */
export const originOf = (c: Context<Env>): string => {
  const { protocol, host } = new URL(c.req.url);
  const forwarded = c.req.header('x-forwarded-proto');
  return `${forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : protocol}//${c.req.header('host') ?? host}`;
};

/**
 * The owner of a request, for the end user that a body names when no header does. A visitor cannot act for anyone else.
 */
export const ownerFor = (c: Context<Env>, owner: Owner, user: string | null | undefined): Owner =>
  user && owner.key !== undefined && c.req.header('x-codebox-user') === undefined ? { ...owner, user } : owner;
