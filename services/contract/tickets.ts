import { z } from 'zod';

/**
 * Lets a browser, which cannot set headers on a WebSocket, connect to one box once: `?ticket=` instead of a key. Whoever has it
 * may do so within 60 s.
 */
export const ticketSchema = z
  .object({
    ticket: z.string(),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'Ticket' });

export type Ticket = z.infer<typeof ticketSchema>;

/** The query parameter that carries a ticket, where one is taken. */
export const ticketParameter = z
  .string()
  .max(128)
  .optional()
  .meta({ description: 'A single-use ticket of this box, in place of a key.' });
