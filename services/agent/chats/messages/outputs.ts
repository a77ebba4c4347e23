import type { CodeOutput, ExecutionEvent } from '#contract';

const headCharacters = 32_768;
const tailCharacters = 32_768;
/** How many characters of displayed data (as opposed to text) one run may keep. */
const richCharacters = 1_000_000;

type TextEvent = Extract<ExecutionEvent, { type: 'stdout' | 'stderr' }>;

const isText = (event: CodeOutput | undefined): event is TextEvent =>
  event?.type === 'stdout' || event?.type === 'stderr';

const append = (events: CodeOutput[], event: CodeOutput): void => {
  const before = events.at(-1);
  if (isText(event) && isText(before) && before.type === event.type && before.origin === event.origin)
    events[events.length - 1] = { ...before, text: before.text + event.text };
  else events.push(event);
};

/**
 * Keeps the outputs of one run in order: the head and tail of long text, displayed data up to a limit per run, and at
 * most `ofAnswer.room` for all runs of one answer; `truncated` stands for the rest.
 */
export const createOutputs = (ofAnswer = { room: richCharacters }) => {
  const head: CodeOutput[] = [];
  const tail: CodeOutput[] = [];
  let [headSize, tailSize, richSize] = [0, 0, 0];
  let dropped = { seq: 0, bytes: 0, events: 0 };

  const drop = (seq: number, bytes: number, events: number) => {
    dropped = { seq: dropped.seq || seq, bytes: dropped.bytes + bytes, events: dropped.events + events };
  };

  /** Drops text from the beginning of the tail until it is short enough. */
  const shorten = () => {
    for (let at = 0; tailSize > tailCharacters && at < tail.length; ) {
      const event = tail[at];
      if (!isText(event)) {
        at += 1;
        continue;
      }
      const cut = Math.min(event.text.length, tailSize - tailCharacters);
      const isGone = cut === event.text.length;
      drop(event.seq, Buffer.byteLength(event.text.slice(0, cut)), isGone ? 1 : 0);
      tailSize -= cut;
      if (isGone) tail.splice(at, 1);
      else tail[at] = { ...event, text: event.text.slice(cut) };
    }
  };

  const addText = (event: TextEvent) => {
    const room = tailSize > 0 ? 0 : headCharacters - headSize;
    const [first, rest] = [event.text.slice(0, room), event.text.slice(room)];
    if (first !== '') append(head, { ...event, text: first });
    headSize += first.length;
    if (rest === '') return;
    append(tail, { ...event, text: rest });
    tailSize += rest.length;
    // Not at each event: that would copy the tail every time.
    if (tailSize > 2 * tailCharacters) shorten();
  };

  return {
    add(event: CodeOutput): void {
      if (isText(event)) {
        addText(event);
        return;
      }
      const last = tailSize > 0 ? tail : head;
      if (event.type === 'image') {
        // There are no more of these than pictures, which have a bound of their own.
        last.push(event);
        return;
      }
      const size = JSON.stringify(event).length;
      if (richSize + size > richCharacters || size > ofAnswer.room) drop(event.seq, size, 1);
      else {
        richSize += size;
        ofAnswer.room -= size;
        last.push(event);
      }
    },

    list(): CodeOutput[] {
      shorten();
      if (dropped.seq === 0) return [...head, ...tail];
      const { seq, bytes, events } = dropped;
      return [...head, { seq, type: 'truncated', droppedBytes: bytes, droppedEvents: events }, ...tail];
    },
  };
};

export type Outputs = ReturnType<typeof createOutputs>;
