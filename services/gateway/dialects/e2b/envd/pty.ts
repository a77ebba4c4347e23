import { Readable } from 'node:stream';
import { z } from 'zod';
import { CodeBoxError, type Environment, hasCode, type Terminal, terminalNewsSchema } from '#contract';
import { readFrame } from '../../../../http/bodies/frame.ts';
import { closeCodes, type Peer } from '../../../../websockets/peer.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { AttachedTerminal } from '../../../boxes/reach/terminals.ts';
import type { RouteParts } from '../../../http/app.ts';

/** A terminal that does not know its size reports 0, which messages leave out. */
const side = (usual: number) =>
  z
    .int()
    .min(0)
    .max(1000)
    .default(0)
    .transform((given) => given || usual);
export const sizeSchema = z.object({ size: z.object({ cols: side(80), rows: side(24) }) });

export interface PtyRequest {
  size: { cols: number; rows: number };
  cwd?: string | undefined;
  env?: Environment | undefined;
  /** After this time the terminal is ended. */
  timeoutMs: number;
}

/** Pseudo terminals as processes, which E2B's clients know by their pids. */
export const createPtys = (terminals: RouteParts['terminals']) => {
  const find = async (ref: BoxRef, pid: number): Promise<Terminal> => {
    const found = (await terminals.list(ref)).find((one) => one.pid === pid);
    if (!found) throw new CodeBoxError('not_found', `There is no process with the pid ${pid}.`);
    return found;
  };

  return {
    list: terminals.list,

    /** Starts a terminal. Resolves with its messages; they end when `leave` fires, without the terminal. */
    async start(ref: BoxRef, { size, cwd, env, timeoutMs }: PtyRequest, leave: AbortSignal) {
      const attached = await terminals.attach(ref, { ...size, cwd, env });
      const { id, pid } = attached;
      if (pid === undefined) throw new Error('a new terminal has no pid');
      const deadline = new AbortController();
      // A terminal is ended in time even if its client has left.
      const timer = setTimeout(() => {
        deadline.abort();
        terminals.end(ref, id).catch(() => {});
      }, timeoutMs).unref();
      return toMessages(attached, pid, { leave, deadline: deadline.signal, onExit: () => clearTimeout(timer) });
    },

    /** Follows a running terminal from now on. Throws `not_found`. */
    async connect(ref: BoxRef, pid: number, leave: AbortSignal) {
      const { id } = await find(ref, pid);
      return toMessages(await terminals.attach(ref, { terminal: id }), pid, { leave, isResumed: true });
    },

    async write(ref: BoxRef, pid: number, keys: Uint8Array): Promise<void> {
      await terminals.write(ref, (await find(ref, pid)).id, keys);
    },

    async resize(ref: BoxRef, pid: number, size: PtyRequest['size']): Promise<void> {
      await terminals.resize(ref, (await find(ref, pid)).id, size);
    },

    async end(ref: BoxRef, pid: number): Promise<void> {
      await terminals.end(ref, (await find(ref, pid)).id);
    },
  };
};

interface Following {
  leave: AbortSignal;
  deadline?: AbortSignal;
  onExit?: () => void;
  /** Whether the output so far is left out. */
  isResumed?: boolean;
}

type Frame = { data: Buffer; isBinary: boolean };

/** The frames of a terminal, which are received only as fast as they are read. */
const framesOf = (peer: Peer, leave: AbortSignal): Readable => {
  let onRoom: (() => void) | undefined;
  const frames = new Readable({ objectMode: true, read: () => onRoom?.() });
  peer.receive((data, isBinary) => {
    if (frames.destroyed || frames.push({ data, isBinary } satisfies Frame)) return undefined;
    return new Promise((done) => {
      onRoom = done;
    });
  });
  const end = () => frames.push(null);
  if (peer.closed.aborted) end();
  else peer.closed.addEventListener('abort', end, { once: true });
  leave.addEventListener('abort', () => peer.close(closeCodes.normal, ''), { once: true });
  return frames;
};

/** Converts the frames of a terminal to the events of a process. Throws when the terminal was lost, or ended at the deadline. */
async function* toMessages(
  attached: AttachedTerminal,
  pid: number,
  { leave, deadline, onExit, isResumed = false }: Following,
): AsyncGenerator<object> {
  let skipped = 0;
  yield { event: { start: { pid } } };
  for await (const { data, isBinary } of framesOf(attached.peer, leave) as AsyncIterable<Frame>) {
    if (isBinary) {
      const news = data.subarray(Math.min(skipped, data.length));
      skipped -= data.length - news.length;
      if (news.length > 0) yield { event: { data: { pty: news.toString('base64') } } };
      continue;
    }
    const frame = readFrame(terminalNewsSchema, data);
    if ('faults' in frame) throw new CodeBoxError('unavailable', 'The box sent an invalid terminal message.');
    if (frame.value.type === 'ready' && isResumed) skipped = frame.value.replayedBytes;
    if (frame.value.type !== 'exit') continue;
    onExit?.();
    if (deadline?.aborted) throw new CodeBoxError('timeout', 'The terminal was ended at the deadline of the call.');
    return yield { event: { end: toEnd(frame.value) } };
  }
  if (leave.aborted) return;
  const isGone = (await attached.causeOfLoss().catch((error: unknown) => hasCode(error, 'not_found'))) !== undefined;
  throw new CodeBoxError(isGone ? 'gone' : 'unavailable', isGone ? 'The sandbox was not found' : 'The box was silent.');
}

/** Converts the end of a process; `cause` describes one that did not exit by itself. */
export const toEnd = ({ exitCode, signal }: { exitCode: number | null; signal: string | null }, cause?: string) => {
  if (exitCode === null) {
    const status = `signal: ${signal ?? 'killed'}`;
    return { exitCode: -1, exited: false, status, error: cause ?? status };
  }
  const status = `exit status ${exitCode}`;
  return { exitCode, exited: true, status, ...(exitCode !== 0 && { error: status }) };
};
