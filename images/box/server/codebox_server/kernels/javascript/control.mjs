// The second thread of the Node process: hears the kernel. A cell is passed on; an interrupt is passed on too, and
// when the main thread does not take it soon, because it is busy, its execution is terminated.
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { parentPort, workerData } from 'node:worker_threads';

const GRACE_MS = 20;
const BUSY_TICKS = 5;
const BLOCKED_MS = 1000;
const { hears, handled } = workerData;

const session = new Session();
session.connectToMainThread();

/** The processor time of the main thread until now, in ticks of 10 ms. */
const usedTicks = () => {
  const stat = readFileSync(`/proc/self/task/${process.pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
};

/**
 * Terminate what runs, once it is sure that something runs: a termination that finds the main thread between two
 * callbacks would hit the next one, which may be Node's own. A thread that has computed for a while and not heard the
 * message is within a callback; to be merely ready to run, on a busy machine, is no sign of that. One that neither
 * computes nor answers for a second is blocked within a callback.
 */
const interrupt = (message) => {
  const before = Atomics.load(handled, 0);
  const since = performance.now();
  const used = usedTicks();
  parentPort.postMessage(message);
  const timer = setInterval(() => {
    if (Atomics.load(handled, 0) !== before) return clearInterval(timer);
    if (usedTicks() - used < BUSY_TICKS && performance.now() - since < BLOCKED_MS) return;
    clearInterval(timer);
    session.post('Runtime.terminateExecution');
  }, GRACE_MS);
};

const lines = createInterface({ input: new Socket({ fd: hears, readable: true, writable: false }) });
lines.on('line', (line) => {
  const message = JSON.parse(line);
  if (message.interrupt === undefined) parentPort.postMessage(message);
  else interrupt(message);
});
// The kernel has gone.
lines.on('close', () => process.exit());
