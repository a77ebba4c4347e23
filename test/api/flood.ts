import { cpuMsOf, type RunningGateway } from './harness.ts';
import type { TestSocket } from './websocket.ts';

/** How many messages a flood has. */
export const frames = 50_000;
/** CPU time that a server may use while one small request of another caller is answered. */
export const mostMs = 200;

export const isClosed = ({ ws }: TestSocket): boolean => ws.readyState === ws.CLOSED;

type Server = Pick<RunningGateway, 'url' | 'pid'>;

/** The most CPU time in ms that a server uses before it answers one small request of somebody else, until `isOver`. */
export const mostCpuMsOf = async (server: Server, isOver: () => boolean): Promise<number> => {
  let most = 0;
  while (!isOver()) {
    const before = await cpuMsOf(server.pid());
    const { status } = await fetch(`${server.url}/healthz`);
    if (status !== 200) throw new Error(`The server answered ${status}.`);
    most = Math.max(most, (await cpuMsOf(server.pid())) - before);
  }
  return most;
};

/** Types into a terminal, one message a key, until its shell has counted them all; returns as `mostCpuMsOf` does. */
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
