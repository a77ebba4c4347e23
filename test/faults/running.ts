import type { ExecutionEvent } from '#contract';
import { eventually, type RunningGateway, readEvents } from '../api/harness.ts';

/** An execution whose events are read as they arrive. */
export interface Running {
  /** Path of the execution. */
  location: string;
  events: ExecutionEvent[];
  /** All events, once the stream has ended; rejects when it is cut. */
  ended: Promise<ExecutionEvent[]>;
}

/** Starts code and waits for its first output. */
export const startRunning = async (
  gateway: RunningGateway,
  box: string,
  code: string,
  timeoutSeconds = 300,
): Promise<Running> => {
  const response = await gateway.call(`/v1/boxes/${box}/executions`, {
    method: 'POST',
    headers: { accept: 'application/x-ndjson' },
    body: JSON.stringify({ code, timeoutSeconds }),
  });
  const events: ExecutionEvent[] = [];
  const read = async () => {
    for await (const event of readEvents(response)) events.push(event);
    return events;
  };
  const ended = read();
  // Callers handle the rejection when they await `ended`.
  ended.catch(() => {});
  await eventually(async () => events.some((event) => event.type === 'stdout'), 60_000);
  return { location: response.headers.get('content-location') ?? '', events, ended };
};

/** Returns Python that counts its runs in a file and prints a line every 200 ms. */
export const ticking = (lines: number): string =>
  `import time\nopen("runs", "a").write("r")\nfor i in range(${lines}):\n  print(i, flush=True)\n  time.sleep(0.2)`;
