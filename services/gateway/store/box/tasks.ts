import { and, asc, eq, gt, inArray, isNotNull, isNull, notExists, or, type SQL, sql } from 'drizzle-orm';
import type { Database } from '../database.ts';
import { blobs, boxes, executions, instances } from '../schema.ts';
import { type BoxRow, isEmbodiedBy, isInReach } from './boxes.ts';

/** What a gateway does about the state of a box, one thing at a time. A pause becomes `freeze` when it cannot be called off. */
export type Task = 'pause' | 'freeze' | 'resume' | 'hibernate' | 'checkpoint' | 'restore';

/** A gateway that has not told for this long that it is still at it counts as gone. */
export const leaseMs = 20_000;

const soon = (ms: number) => sql`now() + make_interval(secs => ${ms / 1000})`;
const over = { task: null, taskId: null, taskSince: null, taskUntil: null } as const;
const isUnused = sql`${boxes.lastActiveAt} <= ${boxes.taskSince}`;
const nextVersion = sql`${boxes.version} + 1`;

/**
 * Tasks: each has an id of its own, and only who knows it can end it, so what a gateway finishes after it was taken for gone, or
 * after the box was used or deleted, comes to nothing. A task that keeps files names their blob by its id.
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
    taskUntil: soon(leaseMs),
    version: nextVersion,
  });
  const keepsFiles = (task: Task) => task === 'hibernate' || task === 'checkpoint';

  /** Ready boxes that nothing is done about, on which work that nobody asked for may begin. */
  const isFree = and(
    eq(boxes.state, 'ready'),
    isNull(boxes.task),
    or(isNull(boxes.retryAt), sql`${boxes.retryAt} < now()`),
    sql`${boxes.expiresAt} > now()`,
    isQuiet,
  );

  /** Begins a task on up to `limit` boxes; rows that another gateway is working on are skipped. */
  const claim = async (where: SQL | undefined, taskOf: (row: BoxRow) => Task, newId: () => string, limit: number) =>
    await db.transaction(async (tx) => {
      const due = await tx
        .select()
        .from(boxes)
        .where(and(isFree, where))
        .orderBy(asc(boxes.lastActiveAt))
        .limit(limit)
        .for('update', { skipLocked: true });
      const begun: BoxRow[] = [];
      for (const found of due) {
        const [id, task] = [newId(), taskOf(found)];
        // Asked again now that the row is locked: what has begun to run since the first look shows only to a new statement.
        const [row] = await tx
          .update(boxes)
          .set(start(task, id))
          .where(and(eq(boxes.id, found.id), isFree, where))
          .returning();
        if (!row) continue;
        if (keepsFiles(task)) await tx.insert(blobs).values({ id, boxId: found.id });
        begun.push(row);
      }
      return begun;
    });

  return {
    /** Undefined when the box is not in that state, or something is done about it already. */
    async begin(boxId: string, state: BoxRow['state'], task: Task, id: string): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set(start(task, id))
          .where(and(eq(boxes.id, boxId), eq(boxes.state, state), isNull(boxes.task)))
          .returning();
        if (row && keepsFiles(task)) await tx.insert(blobs).values({ id, boxId });
        return row;
      });
    },

    /**
     * Begins to freeze a ready box whatever runs there, in place of any task that puts it aside or keeps its files; from here on
     * whoever uses it waits. Undefined when that instance does not embody it any more, or when it is being frozen already.
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
            isEmbodiedBy(instance),
          ),
        )
        .returning();
      return row;
    },

    /**
     * Begins what those of `quiet` that are past their idle time are to do then, instead of ending. Their use may be written up to
     * `lagMs` late.
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

    /** Begins to keep the files of boxes that hibernate, have been used since it was done last, and are not used now. */
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

    /** Says that a task goes on; false when it is not wanted any more. */
    async renew(boxId: string, id: string): Promise<boolean> {
      const rows = await db
        .update(boxes)
        .set({ taskUntil: soon(leaseMs) })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning({ id: boxes.id });
      return rows.length > 0;
    },

    /**
     * Gives a task up; the box stays in its state. After a failure nothing begins by itself for `retryMs`. False when the task was
     * not wanted any more.
     */
    async abandon(boxId: string, id: string, retryMs = 0): Promise<boolean> {
      const rows = await db
        .update(boxes)
        .set({ ...over, version: nextVersion, ...(retryMs > 0 && { retryAt: soon(retryMs) }) })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning({ id: boxes.id });
      return rows.length > 0;
    },

    /** For how much longer a box is left alone after a task that failed, in seconds; 0 or less when it is not. */
    async pauseOf(boxId: string): Promise<number> {
      const [row] = await db
        .select({ seconds: sql<number | null>`extract(epoch from ${boxes.retryAt} - now())::float8` })
        .from(boxes)
        .where(eq(boxes.id, boxId));
      return row?.seconds ?? 0;
    },

    /** The box was used: what would put it aside is given up. */
    async interrupt(boxId: string): Promise<void> {
      await db
        .update(boxes)
        .set({ ...over, version: nextVersion, lastActiveAt: sql`now()` })
        .where(and(eq(boxes.id, boxId), inArray(boxes.task, ['pause', 'hibernate'])));
    },

    /** From here on whoever uses the box waits. False when code runs there, or it was used and `unused` is asked for. */
    async beginFreeze(boxId: string, id: string, unused: boolean): Promise<boolean> {
      return await db.transaction(async (tx) => {
        await holdStill(tx, boxId);
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
        .set({ ...over, state: 'paused', version: nextVersion })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning();
      return row;
    },

    /** `paused` → `ready`. */
    async markResumed(boxId: string, id: string): Promise<BoxRow | undefined> {
      const [row] = await db
        .update(boxes)
        .set({ ...over, state: 'ready', version: nextVersion, lastActiveAt: sql`now()` })
        .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
        .returning();
      return row;
    },

    /**
     * The files are in the blob that is named after the task. With `hibernate` nothing embodies the box any more; its instances
     * answered have to be destroyed. Undefined, and nothing is changed, when code runs there, or when the box was used since
     * the task began and `unused` is asked for.
     */
    async markKept(
      boxId: string,
      id: string,
      kept: { bytes: number; spentCpuMs: number; hibernate: boolean; unused: boolean },
    ): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        await holdStill(tx, boxId);
        const [row] = await tx
          .update(boxes)
          .set({
            ...over,
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

    /** `hibernated` → `ready`, in a new instance with the files of before; any other one that was to be it has to go. */
    async markRestored(
      boxId: string,
      id: string,
      instance: { id: string; address: string },
    ): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set({
            ...over,
            state: 'ready',
            version: nextVersion,
            // Until it is known what the new one had used by now.
            startupCpuMs: sql`- ${boxes.spentCpuMs}`,
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
     * A lost instance: its box hibernates with the files that were kept last. Undefined when there are none, or when that instance
     * does not embody the box any more.
     */
    async fallBack(boxId: string, instance: string): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set({ ...over, state: 'hibernated', version: nextVersion, retryAt: null })
          .where(
            and(
              eq(boxes.id, boxId),
              inArray(boxes.state, ['ready', 'paused']),
              sql`${boxes.checkpointId} is not null`,
              sql`${boxes.expiresAt} > now()`,
              isEmbodiedBy(instance),
            ),
          )
          .returning();
        if (row) await release(tx, boxId);
        return row;
      });
    },

    /**
     * Of a restoration that came to nothing: the instance that was to be the box has to go. False when it is the box, because only the
     * answer to that was lost, or when somebody else ends it.
     */
    async dropInstance(id: string): Promise<boolean> {
      const dropped = await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(and(eq(instances.id, id), eq(instances.state, 'creating')))
        .returning({ id: instances.id });
      return dropped.length > 0;
    },

    /** The same for what a gateway that is gone has left, as long as its task is this one's. */
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
     * Tasks whose gateway is gone, now this one's under new ids. A restoration can be undone from any site, everything else only
     * where the box lives.
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
          const change = { taskId: newId(), taskUntil: soon(leaseMs), version: nextVersion };
          taken.push(...(await tx.update(boxes).set(change).where(eq(boxes.id, id)).returning()));
        }
        return taken;
      });
    },

    /**
     * Of a page of the blobs on record, in the order of their ids, those that no box has and no task is making; `next` is where the next
     * page begins, '' after the last one.
     */
    async strayBlobs(after: string, limit: number): Promise<{ stray: { id: string; boxId: string }[]; next: string }> {
      const owner = db
        .select({ one: sql`1` })
        .from(boxes)
        .where(and(eq(boxes.id, blobs.boxId), or(eq(boxes.checkpointId, blobs.id), eq(boxes.taskId, blobs.id))));
      const page = await db
        .select({ id: blobs.id, boxId: blobs.boxId, isStray: sql<boolean>`${notExists(owner)}` })
        .from(blobs)
        .where(gt(blobs.id, after))
        .orderBy(asc(blobs.id))
        .limit(limit);
      return { stray: page.filter(({ isStray }) => isStray), next: page.length < limit ? '' : (page.at(-1)?.id ?? '') };
    },

    async forgetBlob(id: string): Promise<void> {
      await db.delete(blobs).where(eq(blobs.id, id));
    },

    /** Which of these blobs are on record. */
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

/** What embodied a box does so no more, and has to go. It stays on record as its box's, whose use is counted when it goes. */
const release = async (db: Pick<Database, 'update'>, boxId: string): Promise<void> => {
  await db.update(instances).set({ state: 'destroying' }).where(eq(instances.boxId, boxId));
};

/** Nothing begins to run in a box from here to the end; what has begun before shows to the statements that follow. */
const holdStill = async (tx: Pick<Database, 'select'>, boxId: string): Promise<void> => {
  await tx.select({ id: boxes.id }).from(boxes).where(eq(boxes.id, boxId)).for('update');
};

export type TaskStore = ReturnType<typeof createTaskStore>;
