import { z } from 'zod';

/**
 * Lets a browser, which cannot set headers on a WebSocket, connect to one box once: `?ticket=` instead of a key.
 * Anyone who has the ticket may connect within 60 s.
 */
export const ticketSchema = z
  .object({
    ticket: z.string(),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'Ticket' });

export type Ticket = z.infer<typeof ticketSchema>;

/** The query parameter for a ticket. */
export const ticketParameter = z
  .string()
  .max(128)
  .optional()
  .meta({ description: 'A single-use ticket of this box, in place of a key.' });
