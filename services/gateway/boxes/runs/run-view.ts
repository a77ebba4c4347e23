import type { CommandEvent, ExecutionEvent, Run, RunEvent, RunStepResult } from '#contract';
import { streamText } from './commands.ts';
import { toRunError } from './execution-view.ts';

type StepEvent = ExecutionEvent | CommandEvent;

/** Converts the events of a run to its result; with `hasSteps` that of each step too. */
export const toRun = (events: readonly RunEvent[], hasSteps: boolean): Run => {
  const steps: RunStepResult[] = [];
  const files: Run['files'] = [];
  let ofStep: StepEvent[] = [];
  for (const event of events) {
    if (event.type === 'file') {
      const { seq: _, type: __, ...file } = event;
      files.push(file);
    } else if (event.type !== 'end') {
      ofStep.push(event);
      if (event.type !== 'done') continue;
      steps.push(toStepResult(ofStep));
      ofStep = [];
    }
  }
  const last = steps.at(-1);
  if (!last) throw new Error('The run ended without its last event.');
  return { ...last, files, ...(hasSteps && { steps }) };
};

const toStepResult = (events: StepEvent[]): RunStepResult => {
  const done = events.at(-1);
  if (done?.type !== 'done') throw new Error('The step ended without its last event.');
  const result = events.find((event) => event.type === 'result');
  const text = result?.mime['text/plain'];
  return {
    status: done.status,
    ...(done.cause && { cause: done.cause }),
    exitCode: 'exitCode' in done ? done.exitCode : null,
    text: typeof text === 'string' ? text : null,
    error: toRunError(events),
    stdout: streamText(events, 'stdout'),
    stderr: streamText(events, 'stderr'),
    outputs: events.filter((event) => event.type !== 'started' && event.type !== 'done'),
    signal: 'signal' in done ? done.signal : null,
    durationMs: done.durationMs,
    cpuMs: done.cpuMs ?? null,
  };
};
