import { and, desc, eq, isNotNull, isNull, type SQL, type SQLWrapper, sql } from 'drizzle-orm';
import { type BoxName, parseBoxName } from '#contract';
import type { Database } from '../database.ts';
import { boxes, instances } from '../schema.ts';
import { isLiving } from './box-list.ts';
import { type FoundBox, isCurrent, isDue, runningFirst } from './found-box.ts';

/** Condition on a living box: a user of its tenant gave it this name. The unique index has at most one such box. */
const isNamed = (tenant: SQLWrapper, user: SQLWrapper, name: SQLWrapper) =>
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

/** The boxes that users find again: their reusable ones, and those that they gave names. */
export const createOwnBoxes = (db: Database) => {
  const isExpired = sql<boolean>`${boxes.expiresAt} <= now() and ${boxes.state} <> 'creating'`;
  const [tenant, user, name] = [sql.placeholder('tenant'), sql.placeholder('user'), sql.placeholder('name')];
  const select = (where: SQL | undefined, statement: string) =>
    db
      .select({ box: boxes, instance: instances, isDue, isExpired })
      .from(boxes)
      .leftJoin(instances, isCurrent)
      .where(where)
      .orderBy(desc(boxes.createdAt), runningFirst)
      .limit(1)
      .prepare(statement);
  const isOfUser = and(eq(boxes.tenantId, tenant), eq(boxes.userId, user), isNull(boxes.name), isLiving);
  const selectReusable = select(isOfUser, 'reusable_box');
  const selectNamed = select(and(isNamed(tenant, user, name), isNotNull(boxes.name)), 'named_box');
  const selectId = db
    .select({ id: boxes.id })
    .from(boxes)
    .where(isNamed(tenant, user, name))
    .prepare('id_of_name');

  return {
    /**
     * Finds the living box of a user with this name or, without one, the newest that has no name; `isExpired` when it is past its maximum
     * lifetime and about to be ended.
     */
    async findReusable(
      tenant: string,
      user: string,
      name?: string,
    ): Promise<(FoundBox & { isExpired: boolean }) | undefined> {
      const found =
        name === undefined ? selectReusable.execute({ tenant, user }) : selectNamed.execute({ tenant, user, name });
      return (await found)[0];
    },

    /** Returns the id of the living box to which a user of this tenant gave this name. */
    async idOfName(tenant: string, { user, name }: BoxName): Promise<string | undefined> {
      const [row] = await selectId.execute({ tenant, user, name });
      return row?.id;
    },
  };
};
