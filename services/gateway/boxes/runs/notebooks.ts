import type { Readable } from 'node:stream';
import { CodeBoxError, type NotebookQuery, type RunNotebook } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import { type Commands, type OnAccepted, toMs } from './commands.ts';

export interface NotebooksOptions {
  access: Pick<Access, 'use'>;
  activity: Activity;
  commands: Commands;
}

const defaultTimeoutMs = 600_000;

/** Runs notebooks, and makes them from executions. The run of one is a command, and is read, followed and ended like one. */
export const createNotebooks = ({ access, activity, commands }: NotebooksOptions) => ({
  /**
   * Runs all cells of a notebook in a kernel of their own. The events can be read once, and leaving them does not stop the run; a
   * detached one returns no events. Throws `not_found` when there is no such file, `invalid_request` when it is not a notebook or
   * needs a kernel that the box lacks, and `cpu_limit` when the box has used all its CPU time. Calls `onAccepted` with the id of the
   * command before the request is sent to the box.
   */
  async run(ref: BoxRef, ask: RunNotebook, leave?: AbortSignal, onAccepted?: OnAccepted) {
    const { timeoutSeconds, cellTimeoutSeconds, detach, onError, ...what } = ask;
    const timeoutMs = toMs(timeoutSeconds) ?? (detach ? undefined : defaultTimeoutMs);
    const cellTimeoutMs = toMs(cellTimeoutSeconds);
    const body = { ...what, goOn: onError === 'continue', ...(cellTimeoutMs !== undefined && { cellTimeoutMs }) };
    return await commands.launch(
      ref,
      { timeoutMs, isDetached: detach, leave, onAccepted },
      (server, id, limits, unread) => server.runNotebook(id, { ...body, ...limits }, unread),
    );
  },

  /**
   * Returns an `.ipynb` of the executions that the box still has, the oldest first. The body has to be read to its end or destroyed.
   * Throws `not_found` for an unknown context.
   */
  async export(ref: BoxRef, { context, language }: NotebookQuery): Promise<Readable> {
    if (context !== undefined && language !== undefined) {
      const detail = 'must be left out with context, which has its own';
      throw new CodeBoxError('invalid_request', `language ${detail}.`, { errors: [{ pointer: '/language', detail }] });
    }
    const { server } = await access.use(ref);
    const release = activity.hold(ref.box);
    try {
      const query = new URLSearchParams({ ...(context !== undefined && { context }), ...(language && { language }) });
      const { body } = await server.notebook(query);
      body.once('close', release);
      return body;
    } catch (error) {
      release();
      throw error;
    }
  },
});

export type Notebooks = ReturnType<typeof createNotebooks>;
