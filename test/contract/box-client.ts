import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { tokenHeader } from '../../services/gateway/box-server/transport/endpoint.ts';
import { connectToBox } from '../../services/gateway/box-server/transport/socket.ts';
import type { Driver, Instance } from '../../services/gateway/drivers/driver.ts';

/** The output of a command in a box, and how it ended. */
export interface CommandResult {
  stdout: string;
  stderr: string;
  exitCode: number | null;
  signal: string | null;
  status: string;
}

interface CommandEvent {
  type: string;
  text?: string;
  exitCode?: number | null;
  signal?: string | null;
  status?: string;
}

/** A running instance and the address of its box server. */
export type ServedInstance = Pick<Instance, 'id'> & { address: string };

/** The token of the instances of these tests. */
export const token = 'the-token-of-the-contract';

let commands = 0;

/** Sends one request to a box server, over a connection opened by the gateway's code; throws for a status of 400 and up. */
export const callBox = async (
  { id, address }: ServedInstance,
  method: string,
  path: string,
  body?: unknown,
  itsToken = token,
): Promise<string> => {
  const socket = await connectToBox({ instance: id, address, token: itsToken });
  return new Promise((done, failed) => {
    const headers = { Host: 'localhost', 'Content-Type': 'application/json', [tokenHeader]: itsToken };
    const sent = request({ createConnection: () => socket, method, path, headers, timeout: 120_000 }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('error', failed).once('end', () => {
        if ((response.statusCode ?? 0) < 400) done(text);
        else failed(new Error(`${method} ${path} returned ${response.statusCode}: ${text}`));
      });
    });
    sent.once('error', failed).once('timeout', () => sent.destroy(new Error('the box server did not respond in time')));
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
};

/** Waits until the box server is healthy; throws its last error after `deadlineMs`. */
export const waitForBox = async (
  box: ServedInstance,
  deadlineMs: number,
): Promise<{ status: string; languages: string[] }> => {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    try {
      return JSON.parse(await callBox(box, 'GET', '/codebox/health'));
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
};

/** Waits until an instance is running; throws at the deadline, and at once when it ended or cannot start. */
export const waitUntilRunning = async (driver: Driver, made: Instance, deadlineMs: number): Promise<ServedInstance> => {
  const signal = AbortSignal.timeout(deadlineMs);
  for (let found: Instance | undefined = made; ; found = await driver.inspect(made.id, signal)) {
    const { state = 'ended', address, why } = found ?? {};
    if (state === 'running' && address !== undefined) return { id: made.id, address };
    if (state === 'ended' || why) throw new Error(`the instance does not run: ${JSON.stringify(why)}`);
    await sleep(50);
  }
};

/** Runs a command in a box and waits for its end. */
export const runInBox = async (
  box: ServedInstance,
  argv: readonly string[],
  itsToken = token,
): Promise<CommandResult> => {
  commands += 1;
  const path = `/codebox/commands/probe-${process.pid}-${commands}`;
  const text = await callBox(box, 'PUT', path, { argv, timeoutMs: 60_000 }, itsToken);
  const events = text
    .split('\n')
    .filter(Boolean)
    .map((line): CommandEvent => JSON.parse(line));
  const printed = (type: string) =>
    events
      .filter((event) => event.type === type)
      .map((event) => event.text)
      .join('');
  const done = events.at(-1);
  return {
    stdout: printed('stdout'),
    stderr: printed('stderr'),
    exitCode: done?.exitCode ?? null,
    signal: done?.signal ?? null,
    status: done?.status ?? 'lost',
  };
};

/** Runs Python in a box and parses the JSON that it prints. */
export const evalInBox = async <T>(box: ServedInstance, code: string, itsToken = token): Promise<T> => {
  const { stdout, stderr, status } = await runInBox(box, ['python', '-c', code], itsToken);
  if (status !== 'ok') throw new Error(`the probe ended with ${status}: ${stderr}`);
  return JSON.parse(stdout);
};
