import { type Cause, CodeBoxError } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { UnsettledExecution } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { boxOf } from '../box-ref.ts';
import type { Directory } from '../life/directory.ts';
import type { Endings } from '../life/endings.ts';
import type { Recorder } from '../life/recorder.ts';
import { causeOfRunLoss, type Following, lostEvent } from '../runs/following.ts';
import { journalLost } from '../runs/journal.ts';
import { noEnd } from '../runs/run-clock.ts';

export interface SettlementOptions {
  /** The id of this gateway. */
  gateway: string;
  site: string;
  store: Pick<Store, 'executions'>;
  directory: Pick<Directory, 'find' | 'hasJournals' | 'look'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  following: Following;
  background: Background;
  recorder: Recorder;
}

const frozen = {
  code: 'cpu_limit',
  detail: 'The box was frozen, because its tenant had used all its CPU time of today.',
} as const satisfies Cause;
const pageSize = 200;
const boxesAtOnce = 8;

/**
 * Finds the ends of executions that nobody follows any more, and follows those whose gateway has died. Records only those and this
 * gateway's own as `lost`: another living gateway may just be sending the code of an execution that its box does not know.
 */
export const createSettlement = (options: SettlementOptions) => {
  const { gateway, site, store, directory, endings, following, background, recorder } = options;

  /** Settles one execution after the other. The first failure leaves the rest of this box for the next sweep. */
  const settleBox = async (found: UnsettledExecution[]): Promise<void> => {
    for (const one of found) if (!(await background.attempt('settle an execution', () => settleOne(one)))) return;
  };

  const settleOne = async ({ row, isAbandoned }: UnsettledExecution): Promise<void> => {
    const isHeld = following.isHeld(row.id);
    const isOurs = isAbandoned || row.gatewayId === gateway;
    const ref = boxOf(row);
    // A frozen box neither ends its runs nor responds.
    const { state, task } = await directory.find(ref);
    if (state === 'paused') {
      // A box pauses only when nothing runs, so it was frozen by a gateway that died before it recorded this.
      if (isAbandoned && task === null) recorder.record(row, lostEvent(1, frozen));
      return;
    }
    const server = (await directory.hasJournals(ref)) ? (await directory.look(ref)).server : undefined;
    let cause: Cause | undefined;
    try {
      const found = await server?.readExecution(row.id);
      const where = found?.context && found.language ? { context: found.context, language: found.language } : undefined;
      // This applies also to an execution that is followed here: a slow reader may hold up its events and its end.
      if (found?.done) return recorder.record(row, found.done, where);
      if (found && (isHeld || !isOurs)) return;
      if (found && (await following.isOverdue(row)))
        return recorder.record(row, lostEvent(found.lastSeq + 1, noEnd), where);
      if (found && server) {
        if (await store.executions.adopt(row)) following.inBackground(row, server, found.lastSeq, where);
        return;
      }
    } catch (error) {
      if (!(error instanceof CodeBoxError)) throw error;
      if (error.code === 'not_found') {
        if (!isOurs) return;
        cause = journalLost;
      }
    }
    if (isHeld) return;
    cause ??= await causeOfRunLoss(endings, row);
    if (!cause && isOurs && (await following.isOverdue(row))) cause = noEnd;
    if (!cause) throw new CodeBoxError('unavailable', 'The box does not respond.');
    recorder.record(row, server ? await following.forgotten(row, server, 1, cause) : lostEvent(1, cause));
  };

  /** Settles page by page the executions that nobody follows, and all that have been running for longer than `olderThanMs`. */
  return async (olderThanMs: number): Promise<void> => {
    // Ends that this gateway knows come before what a box, or its absence, shows.
    await recorder.flush();
    for (let after = ''; ; ) {
      const page = await store.executions.unsettled(site, after, olderThanMs, pageSize);
      const boxes = [...Map.groupBy(page, ({ row }) => row.boxId).values()];
      for (let at = 0; at < boxes.length; at += boxesAtOnce) {
        await Promise.all(boxes.slice(at, at + boxesAtOnce).map(settleBox));
      }
      const last = page.at(-1);
      if (page.length < pageSize || !last) return;
      after = last.row.id;
    }
  };
};

export type Settlement = ReturnType<typeof createSettlement>;
