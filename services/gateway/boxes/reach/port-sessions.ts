import type { Seal } from '../../seal.ts';
import type { Caller } from '../../store/tenants/keys.ts';
import type { PortSessionStore } from '../../store/tenants/port-sessions.ts';
import { createSealedTokens } from './sealed-tokens.ts';

export interface PortSessionsOptions {
  sessions: Pick<PortSessionStore, 'insert' | 'find'>;
  seal: Seal;
}

/** How long a session lasts after its ticket. */
export const portSessionSeconds = 3600;

/** Sessions let a browser that has redeemed a ticket use one port of one box for an hour. Any gateway recognizes their cookie. */
export const createPortSessions = ({ sessions, seal }: PortSessionsOptions) => {
  const sealed = createSealedTokens(seal, 'port session');

  return {
    /** Creates a session and resolves with its token, of which only the hash is stored. */
    async create(caller: Caller, boxId: string, port: number): Promise<string> {
      const { token, hash } = sealed.make();
      await sessions.insert({ ...caller, hash, boxId, port }, portSessionSeconds);
      return token;
    },

    /**
     * Resolves with the caller of a session, whose key may have ended since; undefined for one that has expired, is made up or is for
     * another port or box.
     */
    async callerOf(token: string, boxId: string, port: number): Promise<Caller | undefined> {
      const hash = sealed.hashOf(token);
      return hash === undefined ? undefined : await sessions.find(hash, boxId, port);
    },
  };
};

export type PortSessions = ReturnType<typeof createPortSessions>;
