import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { tokenHeader } from '../../services/gateway/box-server/endpoint.ts';
import { connectToBox } from '../../services/gateway/box-server/socket.ts';
import type { Driver, Instance } from '../../services/gateway/drivers/driver.ts';

/** What a command in a box printed and how it ended. */
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

/** An instance that runs. */
export interface ServedInstance extends Instance {
  address: string;
}

/** What the instances of these tests are started with. */
export const token = 'the-token-of-the-contract';

const healthDeadlineMs = 60_000;
let commands = 0;

/** One request to a box server. The connection is made as the gateway makes it: without following links. */
export const callBox = async (
  address: string,
  method: string,
  path: string,
  body?: unknown,
  itsToken = token,
): Promise<string> => {
  const socket = await connectToBox({ instance: '', address, token: itsToken });
  return new Promise((done, failed) => {
    const headers = { Host: 'localhost', 'Content-Type': 'application/json', [tokenHeader]: itsToken };
    const sent = request({ createConnection: () => socket, method, path, headers, timeout: 120_000 }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('error', failed).once('end', () => {
        if ((response.statusCode ?? 0) < 400) done(text);
        else failed(new Error(`${method} ${path} answered ${response.statusCode}: ${text}`));
      });
    });
    sent.once('error', failed).once('timeout', () => sent.destroy(new Error('the box does not answer')));
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
};

/** Waits until the box server serves. Throws when it does not within a minute. */
export const waitForBox = async (address: string): Promise<{ status: string; languages: string[] }> => {
  const deadline = performance.now() + healthDeadlineMs;
  for (;;) {
    try {
      return JSON.parse(await callBox(address, 'GET', '/codebox/health'));
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
};

/** Waits until an instance runs. Throws when it does not within a minute, or never will. */
export const untilRunning = async (driver: Driver, made: Instance): Promise<ServedInstance> => {
  const signal = AbortSignal.timeout(healthDeadlineMs);
  for (let found: Instance | undefined = made; ; found = await driver.inspect(made.id, signal)) {
    const { state = 'ended', address, why } = found ?? {};
    if (state === 'running' && address !== undefined) return { id: made.id, state, address };
    if (state === 'ended' || why) throw new Error(`the instance does not run: ${JSON.stringify(why)}`);
    await sleep(50);
  }
};

/** Runs a program in a box and waits for its end. */
export const runInBox = async (address: string, argv: readonly string[], itsToken = token): Promise<CommandResult> => {
  commands += 1;
  const path = `/codebox/commands/probe-${process.pid}-${commands}`;
  const text = await callBox(address, 'PUT', path, { argv, timeoutMs: 60_000 }, itsToken);
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

/** Runs Python in a box and reads the JSON that it prints. */
export const askBox = async <T>(address: string, code: string): Promise<T> => {
  const { stdout, stderr, status } = await runInBox(address, ['python', '-c', code]);
  if (status !== 'ok') throw new Error(`the probe ended with ${status}: ${stderr}`);
  return JSON.parse(stdout);
};
