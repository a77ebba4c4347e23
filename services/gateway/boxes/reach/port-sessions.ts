import { createHash, randomBytes } from 'node:crypto';
import type { Caller } from '../../store/tenants/keys.ts';
import type { PortSessionStore } from '../../store/tenants/port-sessions.ts';

/** How long a browser may go on after its ticket. */
export const portSessionSeconds = 3600;

const tokenPattern = /^[\w-]{43}$/;
const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');

/** Lets a browser that has redeemed a ticket use one port of one box for an hour: any gateway knows it by its cookie. */
export const createPortSessions = (sessions: PortSessionStore) => ({
  /** A new session; answers its token: 256 random bits, kept as a hash only. */
  async create(caller: Caller, boxId: string, port: number): Promise<string> {
    const token = randomBytes(32).toString('base64url');
    await sessions.insert({ ...caller, hash: hashOf(token), boxId, port }, portSessionSeconds);
    return token;
  },

  /** Whose session this is, whose key may have ended since; undefined for one that has expired or is for another port or box. */
  async callerOf(token: string, boxId: string, port: number): Promise<Caller | undefined> {
    return tokenPattern.test(token) ? await sessions.find(hashOf(token), boxId, port) : undefined;
  },
});

export type PortSessions = ReturnType<typeof createPortSessions>;
