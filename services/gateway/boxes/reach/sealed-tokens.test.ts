import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { createSeal } from '../../seal.ts';
import { createPortSessions } from './port-sessions.ts';
import { createTickets } from './tickets.ts';

const caller = { tenantId: 'one', keyId: 'key' };

/** A gateway with this secret, beside others with the same tables. */
const gatewayWith = (secret: string, { kept, looks }: { kept: Set<string>; looks: string[] }) => {
  const seal = createSeal(secret);
  const find = async (hash: string) => {
    looks.push(hash);
    return kept.has(hash) ? caller : undefined;
  };
  const keep = async ({ hash }: { hash: string }) => {
    kept.add(hash);
    return new Date();
  };
  const access = { use: async () => ({}) as never };
  return {
    tickets: createTickets({ tickets: { insert: keep, redeem: find }, access, seal }),
    sessions: createPortSessions({ sessions: { insert: async (row) => void (await keep(row)), find }, seal }),
  };
};

test('a ticket or session of any gateway is looked for, and one that none has made is refused without a look', async () => {
  const tables = { kept: new Set<string>(), looks: [] as string[] };
  const [one, other] = [gatewayWith('secret', tables), gatewayWith('secret', tables)];
  const { ticket } = await one.tickets.create(caller, 'box-a');
  const session = await one.sessions.create(caller, 'box-a', 5000);
  expect([ticket, session]).toEqual([expect.stringMatching(/^tkt_[\w-]{43}$/), expect.stringMatching(/^[\w-]{43}$/)]);
  expect(await other.tickets.redeem(ticket, 'box-a')).toEqual(caller);
  expect(await other.sessions.callerOf(session, 'box-a', 5000)).toEqual(caller);
  expect(tables.looks.length).toBe(2);

  const strange = gatewayWith('another secret', tables);
  const foreign = await strange.tickets.create(caller, 'box-a');
  const guess = randomBytes(32).toString('base64url');
  for (const token of [`tkt_${guess}`, `tkt_${session}`, foreign.ticket, `${ticket}x`, ticket.slice(0, -1), ''])
    expect(await other.tickets.redeem(token, 'box-a')).toBeUndefined();
  for (const token of [guess, ticket.slice(4), await strange.sessions.create(caller, 'box-a', 5000), `${session}x`, ''])
    expect(await other.sessions.callerOf(token, 'box-a', 5000)).toBeUndefined();
  expect(tables.looks.length).toBe(2);
});
