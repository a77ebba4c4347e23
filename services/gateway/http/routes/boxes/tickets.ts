import { ticketSchema } from '#contract';
import type { Tickets } from '../../../boxes/reach/tickets.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from './boxes.ts';

/** `/v1/boxes/{box}/tickets`: single-use credentials for browsers. */
export const addTicketRoutes = ({ add }: Endpoints, tickets: Tickets): void => {
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/tickets',
      scope: 'run',
      summary: 'Create a ticket: one connection to this box within 60 s, without a key',
      tag: 'Tickets',
      params: boxParams,
      responses: { 201: { description: 'The ticket. Its text is only in this response.', schema: ticketSchema } },
    },
    async ({ c, tenant, params }) => {
      const { ticket, expiresAt } = await tickets.create({ tenantId: tenant, keyId: c.get('keyId') }, params.box);
      return c.json({ ticket, expiresAt: expiresAt.toISOString() }, 201);
    },
  );
};
