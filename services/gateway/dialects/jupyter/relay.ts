import { setTimeout as sleep } from 'node:timers/promises';
import type { Keep } from '../../../websockets/held-messages.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import { binaryProtocol, type ClientMessage, decodeKernel, encode, type ServerMessage } from './messages.ts';

export interface RelayOptions {
  /** Opens the channels of the kernel. */
  open: () => Promise<Peer>;
  send: (message: ServerMessage) => Promise<void> | undefined;
  onError: (message: ClientMessage, error: unknown) => Promise<void>;
  /** Called when the kernel has closed its channels. */
  onLost: () => void;
  /** Aborted when the client has left. */
  closed: AbortSignal;
}

/** Threads of a request may write long after its reply. */
const maxParents = 1000;
/** How long a kernel may be silent after its channels have opened. */
const silentMs = 20_000;
/** The most data that is queued until the channels open. A message beyond it holds up those that follow. */
const maxWaitingBytes = 1024 * 1024;

/**
 * Passes messages of a client other than code to the kernel in the box, and returns what the kernel sends in response. Messages of comms
 * (widgets) are passed on, whichever message they respond to.
 */
export const createRelay = ({ open, send, onError, onLost, closed }: RelayOptions) => {
  const parents = new Set<string>();
  let box: Promise<Peer> | undefined;
  /** A Jupyter server passes nothing on until it receives everything that the kernel broadcasts. */
  const heard = Promise.withResolvers<void>();
  let isOpen = false;
  let waitingBytes = 0;
  let sent: Promise<void> = Promise.resolve();

  const connect = async (): Promise<Peer> => {
    const peer = await open();
    peer.receive((data, isBinary) => {
      heard.resolve();
      const frame = isBinary ? decodeKernel(data) : undefined;
      if (!frame) return undefined;
      const isOfComm = frame.channel === 'iopub' && frame.type.startsWith('comm_');
      if (!isOfComm && (frame.parentId === undefined || !parents.has(frame.parentId))) return undefined;
      const message = frame.read();
      return message && send(message);
    });
    const leave = () => peer.close(closeCodes.normal, '');
    if (closed.aborted) leave();
    closed.addEventListener('abort', leave, { once: true });
    peer.closed.addEventListener('abort', () => (closed.aborted ? undefined : onLost()), { once: true });
    return peer;
  };

  const toBox = async (message: ClientMessage): Promise<void> => {
    box ??= connect();
    const peer = await box.catch((error: unknown) => {
      box = undefined;
      throw error;
    });
    isOpen = true;
    await peer.send(encode(message, binaryProtocol));
  };

  return {
    /**
     * Sends a message to the kernel. While its channels open, for which a kernel that runs code takes until its end, this waits only
     * when much waits already; what fails later is passed to `onError`. Throws `unavailable`, and `not_found` when the kernel is gone.
     */
    async forward(message: ClientMessage, bytes: number, keep: Keep): Promise<void> {
      parents.add(message.header.msg_id);
      const [oldest] = parents;
      if (parents.size > maxParents && oldest !== undefined) parents.delete(oldest);
      const sending = toBox(message);
      if (isOpen || waitingBytes + bytes > maxWaitingBytes) return await sending;
      waitingBytes += bytes;
      const release = keep();
      sent = sending
        .then(() =>
          Promise.race([heard.promise, sleep(silentMs, undefined, { signal: closed, ref: false }).catch(() => {})]),
        )
        .catch((error: unknown) => onError(message, error))
        .finally(() => {
          waitingBytes -= bytes;
          release();
        });
    },

    /** Resolves when the messages so far have been sent and the kernel can be heard, or when that has failed. */
    sent: () => sent,
  };
};
