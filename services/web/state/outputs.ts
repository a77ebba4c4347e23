import type { CodeOutput } from '#contract';

/** One output of code as the page shows it. */
export type Output =
  | { type: 'stream'; name: 'stdout' | 'stderr'; text: string; droppedCharacters: number }
  | { type: 'rich'; mime: Record<string, unknown>; displayId?: string }
  /** The place of a picture, which is stored separately. */
  | { type: 'image'; index: number }
  | { type: 'error'; name: string; value: string; traceback: string }
  | { type: 'truncated'; droppedBytes: number }
  | { type: 'install'; text: string; isDone: boolean };

/**
 * `clearsNext`: the next output replaces everything before it. `leftOut` is how many are left out after the first
 * `maxFirst`.
 */
export interface Outputs {
  items: readonly Output[];
  clearsNext: boolean;
  leftOut: number;
}

export const noOutputs: Outputs = { items: [], clearsNext: false, leftOut: 0 };

/** How many outputs of a run the page keeps, from its beginning and from its end: each may be a document of its own. */
export const maxFirst = 180;
const maxLast = 20;

/** How much of one stream the page keeps, in UTF-16 units: a program may print gigabytes. */
const maxHead = 50_000;
const maxTail = 150_000;

/** Adds one event to the outputs; consecutive text is joined, and the middle of long text is dropped. */
export const addOutput = (outputs: Outputs, event: CodeOutput): Outputs => {
  if (event.type === 'clear') return event.wait ? { ...outputs, clearsNext: true } : noOutputs;
  if (event.type === 'display_update') return { ...outputs, items: outputs.items.map((item) => updated(item, event)) };
  const output = toOutput(event);
  if (output === undefined) return outputs;
  const { items, leftOut } = outputs.clearsNext ? noOutputs : outputs;
  if (output.type !== 'stream') return bounded([...items, output], leftOut);
  const last = items.at(-1);
  const isMore = last?.type === 'stream' && last.name === output.name;
  const stream = joined(isMore ? last : { ...output, text: '' }, output.text);
  return bounded([...(isMore ? items.slice(0, -1) : items), stream], leftOut);
};

/** Leaves out the oldest output that is not among the first ones, when there are too many; the last error stays. */
const bounded = (items: readonly Output[], leftOut: number): Outputs => {
  if (items.length <= maxFirst + maxLast) return { items, clearsNext: false, leftOut };
  const isLastError = items.findLastIndex(({ type }) => type === 'error') === maxFirst;
  return { items: items.toSpliced(isLastError ? maxFirst + 1 : maxFirst, 1), clearsNext: false, leftOut: leftOut + 1 };
};

/** Adds all events. */
export const toOutputs = (events: readonly CodeOutput[]): Outputs => events.reduce(addOutput, noOutputs);

type Stream = Extract<Output, { type: 'stream' }>;

/** Converts one event: a carriage return at its start refers to the text before it. */
const toOutput = (event: CodeOutput): Output | undefined => {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return { type: 'stream', name: event.type, text: event.text, droppedCharacters: 0 };
    case 'result':
      return { type: 'rich', mime: event.mime };
    case 'display':
      return { type: 'rich', mime: event.mime, ...(event.displayId !== undefined && { displayId: event.displayId }) };
    case 'image':
      return event;
    case 'error':
      return { type: 'error', name: event.name, value: event.value, traceback: event.traceback.join('\n') };
    case 'truncated':
      return { type: 'truncated', droppedBytes: event.droppedBytes };
    case 'install':
      return { type: 'install', text: event.text, isDone: event.exitCode === 0 };
    default:
      return undefined;
  }
};

const isDisplay = (item: Output, displayId: string): item is Extract<Output, { type: 'rich' }> =>
  item.type === 'rich' && item.displayId === displayId;

const updated = (item: Output, { displayId, mime }: { displayId: string; mime: Record<string, unknown> }): Output =>
  isDisplay(item, displayId) ? { ...item, mime } : item;

/** Whether an update of this display changes the outputs. */
export const hasDisplay = ({ items }: Outputs, displayId: string): boolean =>
  items.some((item) => isDisplay(item, displayId));

const joined = (stream: Stream, text: string): Stream => {
  const lineStart = stream.text.lastIndexOf('\n') + 1;
  const whole = stream.text.slice(0, lineStart) + withoutOverwritten(stream.text.slice(lineStart) + text);
  const excess = whole.length - maxHead - maxTail;
  // Cut rarely: a quarter more may accumulate first.
  if (excess < maxTail / 4) return { ...stream, text: whole };
  return {
    ...stream,
    text: whole.slice(0, maxHead) + whole.slice(-maxTail),
    droppedCharacters: stream.droppedCharacters + excess,
  };
};

/** A carriage return restarts the line, as in progress bars; trailing ones wait for further text. */
const withoutOverwritten = (text: string): string =>
  text.includes('\r') ? text.split('\n').map(lastState).join('\n') : text;

const lastState = (line: string): string => {
  let end = line.length;
  while (line[end - 1] === '\r') end -= 1;
  return end === 0 ? line : line.slice(line.lastIndexOf('\r', end - 1) + 1);
};

/** Where the middle of a stream was dropped; null when it is complete. */
export const cutAt = (stream: Stream): number | null => (stream.droppedCharacters > 0 ? maxHead : null);
