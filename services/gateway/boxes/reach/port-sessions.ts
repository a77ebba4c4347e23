import { createHash, randomBytes } from 'node:crypto';
import type { Caller } from '../../store/tenants/keys.ts';
import type { PortSessionStore } from '../../store/tenants/port-sessions.ts';

/** How long a session lasts after its ticket. */
export const portSessionSeconds = 3600;

const tokenPattern = /^[\w-]{43}$/;
const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');

/** Sessions let a browser that has redeemed a ticket use one port of one box for an hour. Any gateway recognizes their cookie. */
export const createPortSessions = (sessions: PortSessionStore) => ({
  /** Creates a session and resolves with its token: 256 random bits, stored only as a hash. */
  async create(caller: Caller, boxId: string, port: number): Promise<string> {
    const token = randomBytes(32).toString('base64url');
    await sessions.insert({ ...caller, hash: hashOf(token), boxId, port }, portSessionSeconds);
    return token;
  },

  /** Resolves with the caller of a session, whose key may have ended since; undefined for a session that expired or is for another port or box. */
  async callerOf(token: string, boxId: string, port: number): Promise<Caller | undefined> {
    return tokenPattern.test(token) ? await sessions.find(hashOf(token), boxId, port) : undefined;
  },
});

export type PortSessions = ReturnType<typeof createPortSessions>;
