import { type SQL, type SQLWrapper, sql } from 'drizzle-orm';
import { type BoxName, parseBoxName } from '#contract';
import { boxes } from './schema.ts';

/** Condition on a living box: a user of its tenant gave it this name. The unique index has at most one such box. */
export const isNamed = (tenant: SQLWrapper, user: SQLWrapper, name: SQLWrapper) =>
  // The states are literals, so that the partial index applies to prepared statements too.
  sql`${boxes.tenantId} = ${tenant} and ${boxes.userId} = ${user} and ${boxes.name} = ${name}
    and ${boxes.state} in ('creating', 'ready', 'paused', 'hibernated')`;

/** The values of the placeholders of `isCalled` for a text that is the id of a box, or a user's name of it. */
export const calls = (text: string) => {
  const { user = null, name = null }: Partial<Record<keyof BoxName, string | null>> = parseBoxName(text) ?? {};
  return { called: text, user, name };
};

/** Condition on a column with an id of a box of `tenant`: it is the box that the values of `calls` name. */
export const isCalled = (box: SQLWrapper, tenant: SQLWrapper): SQL =>
  sql`(${box} = ${sql.placeholder('called')} or ${box} = (select ${boxes.id} from ${boxes}
    where ${isNamed(tenant, sql.placeholder('user'), sql.placeholder('name'))}))`;
