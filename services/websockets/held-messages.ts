import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { followFrames } from './frames.ts';

/** The memory that messages of a caller may take. */
export interface Room {
  /** Takes so many bytes; returns false when there is no room for them. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}

/** Counts a message until the returned function is called. It counts once, however often it is kept. */
export type Keep = () => () => void;

export interface HeldMessages {
  /** For a message that has arrived. */
  keepOf(bytes: number): Keep;
  /** Whether a message has been arriving for longer than this, in addition to one second per 64 KiB of it. */
  isLate(patienceMs: number): boolean;
  /** Begins the time for a message anew, because nothing was read meanwhile. */
  readAgain(): void;
}

/** A connection's own: nobody loses a keystroke because others send large messages. */
const freeBytes = 16 * 1024;
export const slowestBytesPerMs = 64;
/** What a piece of a message takes besides its bytes. */
const pieceBytes = 256;

/**
 * Counts what a connection keeps in memory: the message that is arriving, and those that are held. `refuse` is called once, when there is no
 * room for more, and has to end the connection without reading on.
 */
export const holdMessages = (ws: WebSocket, socket: Socket, room: Room, refuse: () => void): HeldMessages => {
  const frames = followFrames();
  let arriving = 0;
  let since = 0;
  let held = 0;
  let taken = 0;
  let isRefused = false;

  const settle = () => {
    const bytes = Math.max(0, arriving + held - freeBytes);
    if (bytes > taken) {
      if (isRefused) return;
      isRefused = !room.take(bytes - taken);
      if (isRefused) return refuse();
    } else if (bytes < taken) {
      room.give(taken - bytes);
    }
    taken = bytes;
  };
  const arrive = (chunk: Buffer) => {
    const before = frames.arriving();
    frames.read(chunk);
    const now = frames.arriving();
    if (now === before + chunk.length && before > 0) {
      arriving += chunk.length + pieceBytes;
      return;
    }
    // Another message, or none.
    since = performance.now();
    arriving = now;
  };
  const leave = () => {
    socket.off('data', arrive);
    socket.off('data', settle);
    arriving = 0;
    settle();
  };

  // Before `ws` reads a chunk, and after that, when the messages that it completes are held.
  socket.prependListener('data', arrive);
  socket.on('data', settle);
  // After an error, nothing that still arrives is kept.
  ws.once('error', leave);
  ws.once('close', leave);

  return {
    keepOf(bytes) {
      let users = 0;
      const change = (by: number) => {
        held += by;
        settle();
      };
      return () => {
        users += 1;
        if (users === 1) change(bytes);
        return () => {
          users -= 1;
          if (users === 0) change(-bytes);
        };
      };
    },
    isLate: (patienceMs) =>
      arriving > freeBytes && performance.now() - since > patienceMs + arriving / slowestBytesPerMs,
    readAgain() {
      since = performance.now();
    },
  };
};
