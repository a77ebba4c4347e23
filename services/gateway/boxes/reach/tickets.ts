import type { Seal } from '../../seal.ts';
import type { Caller } from '../../store/tenants/keys.ts';
import type { TicketStore } from '../../store/tenants/tickets.ts';
import type { Access } from '../life/access.ts';
import { createSealedTokens } from './sealed-tokens.ts';

export interface TicketsOptions {
  tickets: Pick<TicketStore, 'insert' | 'redeem'>;
  access: Pick<Access, 'use'>;
  seal: Seal;
}

const lifeSeconds = 60;

/**
 * Tickets replace a key where a client can only give a URL. Each is valid for one use within 60 s, for one box, at any gateway.
 */
export const createTickets = ({ tickets, access, seal }: TicketsOptions) => {
  const sealed = createSealedTokens(seal, 'ticket', 'tkt_');

  return {
    /** Creates a ticket for a box of this caller and wakes the box. Only the hash of the ticket is stored. */
    async create(caller: Caller, boxId: string): Promise<{ ticket: string; expiresAt: Date }> {
      await access.use({ tenant: caller.tenantId, box: boxId });
      const { token, hash } = sealed.make();
      const expiresAt = await tickets.insert({ ...caller, hash, boxId }, lifeSeconds);
      return { ticket: token, expiresAt };
    },

    /**
     * Resolves once with the caller who created a ticket, whose key may have ended since; with undefined for one that is used, expired,
     * made up or for another box. A ticket for another box stays valid.
     */
    async redeem(ticket: string, boxId: string): Promise<Caller | undefined> {
      const hash = sealed.hashOf(ticket);
      return hash === undefined ? undefined : await tickets.redeem(hash, boxId);
    },
  };
};

export type Tickets = ReturnType<typeof createTickets>;
