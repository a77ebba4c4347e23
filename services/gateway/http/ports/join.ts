import type { Socket } from 'node:net';
import type { OpenSocket } from '../admission/open-sockets.ts';
import { closeFrame, createFrameFollower } from './frames.ts';

/** Nothing moves in either direction for this long: the connection is given up. */
export const silenceMs = 600_000;
/** What a side has to end after the other has. */
const endMs = 10_000;
/** How often a dead peer is looked for while nothing is said. */
const keepAliveMs = 60_000;

/**
 * Passes a WebSocket on as it is, from socket to socket, each as fast as the other takes it. Ends with either side, after long
 * silence, and when it is closed: then both are told so by a close frame, if they are between two frames.
 */
export const joinWebSocket = (client: Socket, server: Socket): OpenSocket => {
  const toClient = createFrameFollower();
  const toServer = createFrameFollower();
  server.on('data', toClient.pass);
  client.on('data', toServer.pass);
  const over = new AbortController();

  const finish = (socket: Socket, frame?: Buffer) => {
    socket.setTimeout(endMs, () => socket.destroy());
    if (frame) socket.end(frame);
    socket.destroySoon();
  };
  for (const [one, other] of [
    [client, server],
    [server, client],
  ] as const) {
    one.setNoDelay(true);
    one.setKeepAlive(true, keepAliveMs);
    one.setTimeout(silenceMs, () => one.destroy());
    // Its close follows.
    one.on('error', () => {});
    const end = () => {
      over.abort();
      finish(other);
    };
    if (one.closed) end();
    else one.once('close', end);
    one.pipe(other);
  }

  return {
    closed: over.signal,
    close(code, reason) {
      server.unpipe(client);
      client.unpipe(server);
      finish(client, toClient.isBetweenFrames() ? closeFrame(code, reason, false) : undefined);
      finish(server, toServer.isBetweenFrames() ? closeFrame(code, reason, true) : undefined);
    },
  };
};
