import type { Socket } from 'node:net';
import type { OpenSocket } from '../admission/open-sockets.ts';
import { closeFrame, createFrameFollower } from './frames.ts';

/** A connection is closed when nothing is received from a side for this long. */
export const silenceMs = 600_000;
/** How long a side may take to close after the other one. */
const endMs = 10_000;
/** The interval of TCP keep-alive probes on an idle connection. */
const keepAliveMs = 60_000;

/**
 * Pipes a WebSocket unchanged from socket to socket, with back-pressure. It ends with either side, after long silence, and when it is
 * closed: then both sides receive a close frame, provided that they are between two frames.
 */
export const joinWebSocket = (client: Socket, server: Socket): OpenSocket => {
  const toClient = createFrameFollower();
  const toServer = createFrameFollower();
  server.on('data', toClient.pass);
  client.on('data', toServer.pass);
  const ended = new AbortController();

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
    // 'close' follows an error.
    one.on('error', () => {});
    const end = () => {
      ended.abort();
      finish(other);
    };
    if (one.closed) end();
    else one.once('close', end);
    one.pipe(other);
  }

  return {
    closed: ended.signal,
    close(code, reason) {
      server.unpipe(client);
      client.unpipe(server);
      finish(client, toClient.isBetweenFrames() ? closeFrame(code, reason, false) : undefined);
      finish(server, toServer.isBetweenFrames() ? closeFrame(code, reason, true) : undefined);
    },
  };
};
