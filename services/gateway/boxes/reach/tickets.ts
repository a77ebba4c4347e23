import { createHash, randomBytes } from 'node:crypto';
import type { Caller } from '../../store/tenants/keys.ts';
import type { TicketStore } from '../../store/tenants/tickets.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

export interface TicketsOptions {
  tickets: TicketStore;
  lifecycle: Pick<Lifecycle, 'use'>;
}

const lifeSeconds = 60;
const ticketPattern = /^tkt_[\w-]{43}$/;

const hashOf = (ticket: string): string => createHash('sha256').update(ticket).digest('hex');

/**
 * Tickets stand for a key where only a URL can be given. Each is good for one use within 60 s, for one box; any gateway may
 * redeem it.
 */
export const createTickets = ({ tickets, lifecycle }: TicketsOptions) => ({
  /** A new ticket for a box of this caller that can be talked to: 256 random bits, kept as a hash only. */
  async create(caller: Caller, boxId: string): Promise<{ ticket: string; expiresAt: Date }> {
    await lifecycle.use({ tenant: caller.tenantId, box: boxId });
    const ticket = `tkt_${randomBytes(32).toString('base64url')}`;
    const expiresAt = await tickets.insert({ ...caller, hash: hashOf(ticket), boxId }, lifeSeconds);
    return { ticket, expiresAt };
  },

  /**
   * Who made this ticket, once, whose key may have ended since; undefined for one that is used, expired, of another box, or no ticket at all.
   * With another box it is not used up.
   */
  async redeem(ticket: string, boxId: string): Promise<Caller | undefined> {
    return ticketPattern.test(ticket) ? await tickets.redeem(hashOf(ticket), boxId) : undefined;
  },
});

export type Tickets = ReturnType<typeof createTickets>;
