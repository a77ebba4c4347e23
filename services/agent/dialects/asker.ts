import type { Context } from 'hono';
import type { Owner } from '../chats/owner.ts';
import type { Env } from '../http/env.ts';

/** The address under which the caller knows the agent, without a path. A proxy before it may say that it is https. */
export const originOf = (c: Context<Env>): string => {
  const { protocol, host } = new URL(c.req.url);
  const told = c.req.header('x-forwarded-proto');
  return `${told === 'https' || told === 'http' ? `${told}:` : protocol}//${c.req.header('host') ?? host}`;
};

/** Who asks, for the end user that a body names where no header does. A visitor is nobody else. */
export const ownerFor = (c: Context<Env>, owner: Owner, user: string | null | undefined): Owner =>
  user && owner.key !== undefined && c.req.header('x-codebox-user') === undefined ? { ...owner, user } : owner;
