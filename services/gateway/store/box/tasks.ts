import { and, asc, eq, gt, inArray, isNotNull, isNull, notExists, or, type SQL, sql } from 'drizzle-orm';
import type { Database } from '../database.ts';
import { blobs, boxes, executions, instances } from '../schema.ts';
import { templateVersions } from '../schema-templates.ts';
import { type BoxRow, hasInstance, isInReach, startupAfterEarlier } from './boxes.ts';

/** A change of a box, one at a time. A pause becomes `freeze` when it can no longer be cancelled. */
export type Task = 'pause' | 'freeze' | 'resume' | 'hibernate' | 'checkpoint' | 'restore' | 'connect';

/** A task whose gateway has not renewed it for this long counts as abandoned. */
export const leaseMs = 20_000;

const inMs = (ms: number) => sql`now() + make_interval(secs => ${ms / 1000})`;
export const noTask = { task: null, taskId: null, taskSince: null, taskUntil: null } as const;
const isUnused = sql`${boxes.lastActiveAt} <= ${boxes.taskSince}`;
export const nextVersion = sql`${boxes.version} + 1`;

/**
 * The tasks of boxes. A task can be ended only by its id, so a gateway that finishes a task after it was presumed dead, or after the box
 * was used or deleted, changes nothing. The id of a task that saves files is also the name of their blob.
 */
export const createTaskStore = (db: Database) => {
  const isQuiet = notExists(
    db
      .select({ one: sql`1` })
      .from(executions)
      .where(and(eq(executions.boxId, boxes.id), eq(executions.status, 'running'))),
  );
  const start = (task: Task, id: string) => ({
    task,
    taskId: id,
    taskSince: sql`now()`,
    taskUntil: inMs(leaseMs),
    version: nextVersion,
  });
  const savesFiles = (task: Task) => task === 'hibernate' || task === 'checkpoint';

  /** Ready boxes without a task, on which an automatic task may start. */
  const isFree = and(
    eq(boxes.state, 'ready'),
    isNull(boxes.task),
    or(isNull(boxes.retryAt), sql`${boxes.retryAt} < now()`),
    sql`${boxes.expiresAt} > now()`,
    isQuiet,
  );

  /** Starts a task on up to `limit` boxes, last on those where one failed; rows that another gateway has locked are skipped. */
  const claim = async (where: SQL | undefined, taskOf: (row: BoxRow) => Task, newId: () => string, limit: number) =>
    await db.transaction(async (tx) => {
      const due = await tx
        .select()
        .from(boxes)
        .where(and(isFree, where))
        .orderBy(sql`${boxes.retryAt} asc nulls first`, asc(boxes.lastActiveAt))
        .limit(limit)
        .for('update', { skipLocked: true });
      const started: BoxRow[] = [];
      for (const found of due) {
        const [id, task] = [newId(), taskOf(found)];
        // The condition is checked again now that the row is locked: only a new statement sees executions that started meanwhile.
        const [row] = await tx
          .update(boxes)
          .set(start(task, id))
          .where(and(eq(boxes.id, found.id), isFree, where))
          .returning();
        if (!row) continue;
        if (savesFiles(task)) await tx.insert(blobs).values({ id, boxId: found.id });
        started.push(row);
      }
      return started;
    });

  return {
    /** Starts a task. Returns undefined when the box is not in that state or already has a task. */
    async begin(boxId: string, state: BoxRow['state'], task: Task, id: string): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set(start(task, id))
          .where(and(eq(boxes.id, boxId), eq(boxes.state, state), isNull(boxes.task)))
          .returning();
        if (row && savesFiles(task)) await tx.insert(blobs).values({ id, boxId });
        return row;
      });
    },

    /**
     * Starts to freeze a ready box even though code runs in it, and replaces any other task that pauses or saves it; from now on its users
     * wait. Returns undefined when that is no longer its instance, or when the box is being frozen already.
     */
    async seize(boxId: string, instance: string, id: string): Promise<BoxRow | undefined> {
      const [row] = await db
        .update(boxes)
        .set(start('freeze', id))
        .where(
          and(
            eq(boxes.id, boxId),
            eq(boxes.state, 'ready'),
            or(isNull(boxes.task), inArray(boxes.task, ['pause', 'hibernate', 'checkpoint'])),
            hasInstance(instance),
          ),
        )
        .returning();
      return row;
    },

    /**
     * Starts the `onIdle` task of those boxes of `quiet` that are past their idle time. Their use may be recorded up to `lagMs` late.
     */
    claimIdle: (quiet: readonly string[], lagMs: number, newId: () => string) =>
      claim(
        and(
          inArray(boxes.id, [...quiet]),
          inArray(boxes.onIdle, ['pause', 'hibernate']),
          sql`${boxes.lastActiveAt} + make_interval(secs => ${boxes.idleSeconds} + ${lagMs / 1000}::float8) <= now()`,
        ),
        ({ onIdle }) => (onIdle === 'pause' ? 'pause' : 'hibernate'),
        newId,
        quiet.length,
      ),

    /** Starts checkpoints of boxes that hibernate when idle, were used since their last checkpoint, and are not in use now. */
    claimCheckpoints: (site: string, quietMs: number, newId: () => string, limit: number) =>
      claim(
        and(
          eq(boxes.onIdle, 'hibernate'),
          isInReach(site),
          sql`${boxes.lastActiveAt} + make_interval(secs => ${quietMs / 1000}) <= now()`,
          or(isNull(boxes.checkpointAt), sql`${boxes.checkpointAt} < ${boxes.lastActiveAt}`),
        ),
        () => 'checkpoint',
        newId,
        limit,
      ),

    /** Renews the lease of a task; returns false when the task has been ended by someone else. */
    async renew(boxId: string, id: string): Promise<boolean> {
      const rows = await db
        .update(boxes)
        .set({ taskUntil: inMs(leaseMs) })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning({ id: boxes.id });
      return rows.length > 0;
    },

    /**
     * Ends a task without a change of state. After a failure no task starts automatically for `retryMs`. Returns false when the task was
     * no longer current.
     */
    async abandon(boxId: string, id: string, retryMs = 0): Promise<boolean> {
      const rows = await db
        .update(boxes)
        .set({ ...noTask, version: nextVersion, ...(retryMs > 0 && { retryAt: inMs(retryMs) }) })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning({ id: boxes.id });
      return rows.length > 0;
    },

    /** Returns for how many more seconds no task starts automatically after a failed one; 0 or less when one may start. */
    async pauseOf(boxId: string): Promise<number> {
      const [row] = await db
        .select({ seconds: sql<number | null>`extract(epoch from ${boxes.retryAt} - now())::float8` })
        .from(boxes)
        .where(eq(boxes.id, boxId));
      return row?.seconds ?? 0;
    },

    /** Records a use of the box, and ends a task that would pause or hibernate it. */
    async interrupt(boxId: string): Promise<void> {
      await db
        .update(boxes)
        .set({ ...noTask, version: nextVersion, lastActiveAt: sql`now()` })
        .where(and(eq(boxes.id, boxId), inArray(boxes.task, ['pause', 'hibernate'])));
    },

    /** Makes users of the box wait from now on. Returns false when code runs in it, or when it was used and `unused` is true. */
    async beginFreeze(boxId: string, id: string, unused: boolean): Promise<boolean> {
      return await db.transaction(async (tx) => {
        await lockBox(tx, boxId);
        const rows = await tx
          .update(boxes)
          .set({ task: 'freeze' })
          .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id), isQuiet, unused ? isUnused : undefined))
          .returning({ id: boxes.id });
        return rows.length > 0;
      });
    },

    /** → `paused`. */
    async markPaused(boxId: string, id: string): Promise<BoxRow | undefined> {
      const [row] = await db
        .update(boxes)
        .set({ ...noTask, state: 'paused', version: nextVersion })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning();
      return row;
    },

    /** `paused` → `ready`. */
    async markResumed(boxId: string, id: string): Promise<BoxRow | undefined> {
      const [row] = await db
        .update(boxes)
        .set({ ...noTask, state: 'ready', version: nextVersion, lastActiveAt: sql`now()` })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning();
      return row;
    },

    /**
     * Records that the files are in the blob that is named after the task. With `hibernate` the instances of the box are marked for
     * destruction. Returns undefined and changes nothing when code runs in a box that is to hibernate, or when the box was used since the
     * task started and `unused` is true.
     */
    async markKept(
      boxId: string,
      id: string,
      kept: { bytes: number; spentCpuMs: number; hibernate: boolean; unused: boolean },
    ): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        await lockBox(tx, boxId);
        const [row] = await tx
          .update(boxes)
          .set({
            ...noTask,
            ...(kept.hibernate && { state: 'hibernated' }),
            version: nextVersion,
            checkpointId: id,
            checkpointAt: sql`${boxes.taskSince}`,
            storageBytes: kept.bytes,
            spentCpuMs: kept.spentCpuMs,
            retryAt: null,
          })
          .where(
            and(
              eq(boxes.id, boxId),
              eq(boxes.taskId, id),
              kept.hibernate ? isQuiet : undefined,
              kept.unused ? isUnused : undefined,
            ),
          )
          .returning();
        if (row && kept.hibernate) await release(tx, boxId);
        return row;
      });
    },

    /** `hibernated` → `ready`, in a new instance with the saved files; other instances of the box are marked for destruction. */
    async markRestored(
      boxId: string,
      id: string,
      instance: { id: string; address: string },
    ): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set({
            ...noTask,
            state: 'ready',
            version: nextVersion,
            startupCpuMs: startupAfterEarlier(sql`0`),
            restoredAt: sql`now()`,
            retryAt: null,
            lastActiveAt: sql`now()`,
          })
          .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
          .returning();
        if (!row) return undefined;
        await release(tx, boxId);
        const { address } = instance;
        await tx.update(instances).set({ state: 'running', address }).where(eq(instances.id, instance.id));
        return row;
      });
    },

    /**
     * Returns a box with a lost instance to hibernation, with the files that were saved last. Returns undefined when there are none, or when
     * that is no longer its instance.
     */
    async fallBack(boxId: string, instance: string): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set({ ...noTask, state: 'hibernated', version: nextVersion, retryAt: null })
          .where(
            and(
              eq(boxes.id, boxId),
              inArray(boxes.state, ['ready', 'paused']),
              sql`${boxes.checkpointId} is not null`,
              sql`${boxes.expiresAt} > now()`,
              hasInstance(instance),
            ),
          )
          .returning();
        if (row) await release(tx, boxId);
        return row;
      });
    },

    /**
     * Marks the instance of a failed restoration for destruction. Returns false when the box was in fact restored into it and only the
     * response to that statement was lost, or when the instance is being destroyed already.
     */
    async dropInstance(id: string): Promise<boolean> {
      const dropped = await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(and(eq(instances.id, id), eq(instances.state, 'creating')))
        .returning({ id: instances.id });
      return dropped.length > 0;
    },

    /** Marks all instances of a box for destruction after the task was taken over from a dead gateway, while the task is current. */
    async dropInstances(boxId: string, id: string): Promise<void> {
      await db.transaction(async (tx) => {
        const [row] = await tx
          .select({ id: boxes.id })
          .from(boxes)
          .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
          .for('update');
        if (row) await release(tx, boxId);
      });
    },

    /**
     * Takes over tasks of gateways that have died, under new ids. A restoration can be undone from any site, every other task only at the
     * site of the box.
     */
    async takeOver(site: string, newId: () => string, limit: number): Promise<BoxRow[]> {
      return await db.transaction(async (tx) => {
        const stale = await tx
          .select({ id: boxes.id })
          .from(boxes)
          .where(
            and(
              sql`${boxes.taskUntil} < now()`,
              or(eq(boxes.task, 'restore'), and(isNotNull(boxes.task), isInReach(site))),
            ),
          )
          .limit(limit)
          .for('update', { skipLocked: true });
        const taken: BoxRow[] = [];
        for (const { id } of stale) {
          const change = { taskId: newId(), taskUntil: inMs(leaseMs), version: nextVersion };
          taken.push(...(await tx.update(boxes).set(change).where(eq(boxes.id, id)).returning()));
        }
        return taken;
      });
    },

    /**
     * Reads a page of recorded blobs, by id, and returns those that belong to no box, no task and no template; `next` is the cursor of the next page,
     * '' after the last one.
     */
    async strayBlobs(after: string, limit: number): Promise<{ stray: { id: string; boxId: string }[]; next: string }> {
      const owner = db
        .select({ one: sql`1` })
        .from(boxes)
        .where(and(eq(boxes.id, blobs.boxId), or(eq(boxes.checkpointId, blobs.id), eq(boxes.taskId, blobs.id))));
      const version = db.select({ one: sql`1` }).from(templateVersions).where(eq(templateVersions.blobId, blobs.id));
      const page = await db
        .select({
          id: blobs.id,
          boxId: blobs.boxId,
          isStray: sql<boolean>`${notExists(owner)} and ${notExists(version)}`,
        })
        .from(blobs)
        .where(gt(blobs.id, after))
        .orderBy(asc(blobs.id))
        .limit(limit);
      return { stray: page.filter(({ isStray }) => isStray), next: page.length < limit ? '' : (page.at(-1)?.id ?? '') };
    },

    async forgetBlob(id: string): Promise<void> {
      await db.delete(blobs).where(eq(blobs.id, id));
    },

    /** Returns those of these blobs that are recorded. */
    async knownBlobs(ids: readonly string[]): Promise<Set<string>> {
      if (ids.length === 0) return new Set();
      const rows = await db
        .select({ id: blobs.id })
        .from(blobs)
        .where(inArray(blobs.id, [...ids]));
      return new Set(rows.map(({ id }) => id));
    },
  };
};

/** Marks the instances of a box for destruction. Their rows keep the box, for which their usage is counted when they are destroyed. */
const release = async (db: Pick<Database, 'update'>, boxId: string): Promise<void> => {
  await db.update(instances).set({ state: 'destroying' }).where(eq(instances.boxId, boxId));
};

/** Locks a box: no execution starts in it until the transaction ends, and the following statements see those that started before. */
const lockBox = async (tx: Pick<Database, 'select'>, boxId: string): Promise<void> => {
  await tx.select({ id: boxes.id }).from(boxes).where(eq(boxes.id, boxId)).for('update');
};

export type TaskStore = ReturnType<typeof createTaskStore>;
