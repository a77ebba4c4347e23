// The second thread of the Node process, which receives the kernel's messages. It forwards cells and interrupts; when
// the main thread is busy and does not handle an interrupt soon, it terminates the execution.
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { parentPort, workerData } from 'node:worker_threads';

const GRACE_MS = 20;
const BUSY_TICKS = 5;
const BLOCKED_MS = 1000;
const { inputFd, handled } = workerData;

const session = new Session();
session.connectToMainThread();

/** The CPU time of the main thread so far, in ticks of 10 ms. */
const usedTicks = () => {
  const stat = readFileSync(`/proc/self/task/${process.pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
};

/**
 * Terminates the running code, but only once something certainly runs: a termination between two callbacks would hit
 * the next callback, which may be Node's own. A thread that has computed for a while without receiving the message is
 * inside a callback; being merely ready to run, on a busy machine, proves nothing. A thread that neither computes nor
 * responds for a second is blocked inside a callback.
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

const lines = createInterface({ input: new Socket({ fd: inputFd, readable: true, writable: false }) });
lines.on('line', (line) => {
  const message = JSON.parse(line);
  if (message.interrupt === undefined) parentPort.postMessage(message);
  else interrupt(message);
});
// The kernel has ended.
lines.on('close', () => process.exit());
