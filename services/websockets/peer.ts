import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RawData, WebSocket } from 'ws';
import { createTurns } from '../waiting/turns.ts';
import { holdMessages, type Keep, type Room, slowestBytesPerMs } from './held-messages.ts';

/** The other end of a WebSocket, with limits on time and memory in both directions. */
export interface Peer {
  /** Aborted when the connection is over, however it ended, and what was received before has been handled. */
  closed: AbortSignal;
  /** Whether messages can still be sent. False from the moment when either side begins to close the connection. */
  isOpen(): boolean;
  /**
   * Sends one message; does nothing when the connection is over. When the buffer is full, returns a promise that
   * resolves when there is room again, or the connection is over.
   */
  send(data: string | Uint8Array): Promise<void> | undefined;
  /**
   * `handle` is called for one message after the other; while its promise is pending nothing more is read. When it
   * rejects, the connection is closed. Messages that arrive without pause are handled in pieces, so that other work
   * gets its turn.
   */
  receive(handle: (data: Buffer, isBinary: boolean) => Promise<void> | undefined): void;
  /** Counts the message that is being handled as one in memory until the returned function is called, after its handling too. */
  keep: Keep;
  /** Counts a useless message. Beyond 1000 in a minute the connection is closed with 1008, and this returns false. */
  tolerate(): boolean;
  /**
   * Closes with a code and a reason, after pending messages; nothing more is handled. A peer that does not reply is
   * disconnected.
   */
  close(code: number, reason: string): void;
}

export interface PeerOptions {
  /** How often a silent peer is pinged. A peer that does not reply until the next ping is disconnected. */
  pingMs?: number;
  /**
   * How long a peer may take to read pending data and to send a message, in addition to one second per 64 KiB of them; and how long what came
   * before the end may still be handled.
   */
  stallMs?: number;
  /**
   * The memory that its messages may take, and the connection below the WebSocket; without it, they are not counted. When it has no room for a
   * message, the connection is closed with 1013.
   */
  memory?: { socket: Socket; room: Room };
}

/** Above this mark the sender waits, until less than a quarter of it is pending. */
const highWaterBytes = 256 * 1024;
const lowWaterBytes = highWaterBytes / 4;
const maxReasonBytes = 120;
const maxTolerated = 1000;
const toleratedMs = 60_000;
/** How long a peer that is cut off may take to receive the reason. */
const cutMs = 1000;

/** Shared by the messages of all connections. Handling one message takes far less. */
const turns = createTurns(10);

/** The WebSocket close codes in use (RFC 6455 and its registry). */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupported: 1003,
  refused: 1008,
  failed: 1011,
  restart: 1012,
  later: 1013,
};

/** Creates a Peer on an open WebSocket of either side. */
export const createPeer = (ws: WebSocket, { pingMs = 20_000, stallMs = 15_000, memory }: PeerOptions = {}): Peer => {
  const over = new AbortController();
  let room: PromiseWithResolvers<void> | undefined;
  let stall: NodeJS.Timeout | undefined;
  let isAlive = true;
  let isClosing = false;
  let isCut = false;
  let handling: Promise<void> | undefined;
  let tolerated = 0;
  let toleratedUntil = 0;

  const makeRoom = () => {
    clearTimeout(stall);
    room?.resolve();
    room = undefined;
  };
  const isOpen = () => ws.readyState === WebSocket.OPEN;
  const close = (code: number, reason: string) => {
    isClosing = true;
    if (isOpen()) ws.close(code, toReason(reason));
  };
  const whenSent = () => {
    if (room && ws.bufferedAmount <= lowWaterBytes) makeRoom();
  };
  const waitForRoom = (): PromiseWithResolvers<void> => {
    stall = setTimeout(
      () => {
        close(closeCodes.later, 'It does not take what is sent to it.');
        makeRoom();
      },
      stallMs + ws.bufferedAmount / slowestBytesPerMs,
    );
    return Promise.withResolvers<void>();
  };

  /** Closes, and reads nothing more from now on. */
  const cut = (code: number, reason: string) => {
    close(code, reason);
    isCut = true;
    ws.pause();
    setTimeout(() => ws.terminate(), cutMs);
  };
  const held =
    memory &&
    holdMessages(ws, memory.socket, memory.room, () =>
      cut(closeCodes.later, 'Too much is in memory for this message; send it again later.'),
    );
  let keep = keepNothing;
  // A pong cannot come in the middle of a frame.
  memory?.socket.on('data', () => {
    isAlive = true;
  });

  const ping = setInterval(() => {
    // A ping after pending data would be late: that data has a deadline of its own.
    if (room || ws.isPaused) return;
    if (held?.isLate(stallMs)) return cut(closeCodes.refused, 'A message took too long to arrive.');
    if (!isAlive) return ws.terminate();
    isAlive = false;
    ws.ping();
  }, pingMs);

  ws.on('pong', () => {
    isAlive = true;
  });
  // For frames that violate the protocol or are too long, ws closes with the right code.
  ws.on('error', () => {});
  ws.once('close', async () => {
    clearInterval(ping);
    makeRoom();
    const late = new AbortController();
    const patience = sleep(stallMs, undefined, { signal: late.signal }).catch(() => {});
    if (!isClosing) await Promise.race([handling, patience]);
    late.abort();
    over.abort();
  });

  return {
    closed: over.signal,
    isOpen,
    close,
    keep: () => keep(),
    send(data) {
      if (!isOpen()) return undefined;
      ws.send(data, { binary: typeof data !== 'string' }, whenSent);
      if (ws.bufferedAmount <= highWaterBytes) return undefined;
      room ??= waitForRoom();
      return room.promise;
    },
    receive(handle) {
      interface Message {
        data: Buffer;
        isBinary: boolean;
        keep: Keep;
        release: () => void;
      }
      const waiting: Message[] = [];
      let isBusy = false;
      const handleOne = (message: Message) => {
        keep = message.keep;
        return handle(message.data, message.isBinary);
      };
      const workOff = async (first: Promise<void>, message: Message) => {
        isBusy = true;
        // Data that was read already still arrives: at most one chunk of the connection.
        ws.pause();
        try {
          await first;
          for (const next of waiting) {
            await turns.next();
            if (isClosing) break;
            await handleOne(next);
          }
        } catch {
          close(closeCodes.failed, 'Something went wrong inside the service.');
        }
        for (const { release } of [message, ...waiting.splice(0)]) release();
        isBusy = false;
        held?.readAgain();
        if (!isCut) ws.resume();
      };
      ws.on('message', (raw, isBinary) => {
        isAlive = true;
        if (isClosing) return;
        const data = toBuffer(raw);
        const keepThis = held?.keepOf(data.length) ?? keepNothing;
        const message = { data, isBinary, keep: keepThis, release: keepThis() };
        if (isClosing) return message.release();
        if (isBusy) {
          waiting.push(message);
          return;
        }
        const busy = turns.next()?.then(() => handleOne(message)) ?? handleOne(message);
        if (busy) handling = workOff(busy, message);
        else message.release();
      });
      ws.resume();
    },
    tolerate() {
      const now = performance.now();
      if (now >= toleratedUntil) {
        tolerated = 0;
        toleratedUntil = now + toleratedMs;
      }
      tolerated += 1;
      if (tolerated <= maxTolerated) return true;
      close(closeCodes.refused, 'Too many messages brought nothing.');
      return false;
    },
  };
};

const keepNothing: Keep = () => () => {};

const toBuffer = (raw: RawData): Buffer =>
  Buffer.isBuffer(raw) ? raw : Array.isArray(raw) ? Buffer.concat(raw) : Buffer.from(raw);

/** The most that a close frame can hold, cut between characters. */
const toReason = (text: string): string => {
  const bytes = Buffer.from(text).subarray(0, maxReasonBytes);
  return bytes.toString('utf8').replace(/\ufffd+$/, '');
};
