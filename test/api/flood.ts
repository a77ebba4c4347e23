import { cpuMsOf, type GatewayProcess } from './harness.ts';
import type { TestSocket } from './websocket.ts';

/** Number of messages in a flood. */
export const frames = 50_000;
/** CPU time that a server may use before it responds to one small request of another caller. */
export const mostMs = 200;

export const isClosed = ({ ws }: TestSocket): boolean => ws.readyState === ws.CLOSED;

type Server = Pick<GatewayProcess, 'url' | 'pid'>;

/** Resolves with the most CPU time in ms that the server used before it responded to a small request of another caller, until `isOver`. */
export const mostCpuMsOf = async (server: Server, isOver: () => boolean): Promise<number> => {
  let most = 0;
  while (!isOver()) {
    const before = await cpuMsOf(server.pid());
    const { status } = await fetch(`${server.url}/healthz`);
    if (status !== 200) throw new Error(`The server responded with ${status}.`);
    most = Math.max(most, (await cpuMsOf(server.pid())) - before);
  }
  return most;
};

/** Types into a terminal, one message per key, until its shell has counted all keys; resolves as `mostCpuMsOf` does. */
export const mostCpuMsOfKeys = async (server: Server, socket: TestSocket): Promise<number> => {
  socket.sendBytes(`stty -echo -icanon; echo re""ady; head -c ${frames} | wc -c\r`);
  await socket.text('ready');
  for (let n = 0; n < frames; n++) socket.sendBytes('x');
  let isOver = false;
  const counted = socket.text(new RegExp(`\\b${frames}\\b`)).finally(() => {
    isOver = true;
  });
  const most = await mostCpuMsOf(server, () => isOver);
  await counted;
  socket.ws.terminate();
  return most;
};
