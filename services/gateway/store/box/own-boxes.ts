import { and, desc, eq, isNotNull, isNull, type SQL, sql } from 'drizzle-orm';
import type { BoxName } from '#contract';
import { isNamed } from '../box-names.ts';
import type { Database } from '../database.ts';
import { boxes, instances } from '../schema.ts';
import { isLiving } from './box-list.ts';
import { type FoundBox, isCurrent, isDue, runningFirst } from './found-box.ts';

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
