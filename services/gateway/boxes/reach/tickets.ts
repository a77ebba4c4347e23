import { createHash, randomBytes } from 'node:crypto';
import type { Caller } from '../../store/tenants/keys.ts';
import type { TicketStore } from '../../store/tenants/tickets.ts';
import type { Access } from '../life/access.ts';

export interface TicketsOptions {
  tickets: TicketStore;
  access: Pick<Access, 'use'>;
}

const lifeSeconds = 60;
const ticketPattern = /^tkt_[\w-]{43}$/;

const hashOf = (ticket: string): string => createHash('sha256').update(ticket).digest('hex');

/**
 * Tickets replace a key where a client can only give a URL. Each is valid for one use within 60 s, for one box, at any gateway.
 */
export const createTickets = ({ tickets, access }: TicketsOptions) => ({
  /** Creates a ticket for a box of this caller and wakes the box: 256 random bits, stored only as a hash. */
  async create(caller: Caller, boxId: string): Promise<{ ticket: string; expiresAt: Date }> {
    await access.use({ tenant: caller.tenantId, box: boxId });
    const ticket = `tkt_${randomBytes(32).toString('base64url')}`;
    const expiresAt = await tickets.insert({ ...caller, hash: hashOf(ticket), boxId }, lifeSeconds);
    return { ticket, expiresAt };
  },

  /**
   * Resolves once with the caller who created a ticket, whose key may have ended since; with undefined for one that is used, expired,
   * malformed or for another box. A ticket for another box stays valid.
   */
  async redeem(ticket: string, boxId: string): Promise<Caller | undefined> {
    return ticketPattern.test(ticket) ? await tickets.redeem(hashOf(ticket), boxId) : undefined;
  },
});

export type Tickets = ReturnType<typeof createTickets>;
