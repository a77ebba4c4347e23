import type { AnswerEvent, Attachment, Message, Part } from '#contract';
import { addOutput, noOutputs, type Outputs, toOutputs } from './outputs.ts';

/** Code of an answer with its outputs. */
export type CodePart = Omit<Extract<Part, { type: 'code' }>, 'outputs'> & { outputs: Outputs };

export type EntryPart = Exclude<Part, { type: 'code' }> | CodePart;

/** A message as the page shows it, complete or still arriving. */
export type Entry = Omit<Message, 'parts'> & { parts: readonly EntryPart[] };

export const toEntry = (message: Message): Entry => ({
  ...message,
  parts: message.parts.map((part) => (part.type === 'code' ? { ...part, outputs: outputsOf(part) } : part)),
});

/** A picture without a place follows all outputs. */
const outputsOf = ({ outputs, images }: Extract<Part, { type: 'code' }>): Outputs => {
  const placed = new Set(outputs.map((output) => (output.type === 'image' ? output.index : undefined)));
  const unplaced = images.map((_, index) => index).filter((index) => !placed.has(index));
  return toOutputs([...outputs, ...unplaced.map((index) => ({ type: 'image' as const, index }))]);
};

/** An answer that has only just begun. */
export const emptyAnswer = (id: string, model: string | null): Entry => ({
  id,
  role: 'assistant',
  status: 'running',
  content: '',
  parts: [],
  files: [],
  model,
  tokens: null,
  rounds: null,
  error: null,
  createdAt: new Date().toISOString(),
});

/** Applies one more event to the answer. `start` resets it. */
export const applyEvent = (entry: Entry, event: AnswerEvent): Entry => {
  switch (event.type) {
    case 'start':
      return { ...emptyAnswer(event.message, event.model), createdAt: entry.createdAt };
    case 'text':
      return { ...entry, content: entry.content + event.text, parts: withText(entry.parts, event.text) };
    case 'code':
      return { ...entry, parts: withCode(entry.parts, event) };
    case 'output':
      return changed(entry, event.call, (part) => ({ ...part, outputs: addOutput(part.outputs, event.event) }));
    case 'image':
      return changed(entry, event.call, (part) => ({
        ...part,
        outputs: addOutput(part.outputs, { type: 'image', index: part.images.length }),
        images: [...part.images, event.image],
      }));
    case 'file': {
      if (event.call === null) return { ...entry, files: [...entry.files, event.file] };
      return changed(entry, event.call, (part) => ({ ...part, files: [...part.files, event.file] }));
    }
    case 'ran':
      return changed(entry, event.call, (part) => ({
        ...part,
        state: part.state === 'running' ? 'done' : part.state,
        status: event.status,
        durationMs: event.durationMs,
        ...(event.deleted && { deleted: event.deleted }),
      }));
    case 'tool':
    case 'notice':
      return { ...entry, parts: [...entry.parts, event] };
    case 'error':
      return { ...entry, error: { code: event.code, detail: event.detail } };
    case 'done': {
      const { status, content, files, tokens, rounds } = event;
      return { ...entry, status, content, files, tokens, rounds };
    }
  }
};

/** Marks files as deleted in a message. */
export const withGone = (entry: Entry, deleted: readonly string[]): Entry => {
  const paths = new Set(deleted);
  const marked = (files: readonly Attachment[]) =>
    files.map((file) => (paths.has(file.path) ? { ...file, isGone: true } : file));
  return {
    ...entry,
    files: marked(entry.files),
    parts: entry.parts.map((part) => (part.type === 'code' ? { ...part, files: marked(part.files) } : part)),
  };
};

const withText = (parts: readonly EntryPart[], text: string): readonly EntryPart[] => {
  const last = parts.at(-1);
  if (last?.type !== 'text') return [...parts, { type: 'text', text }];
  return [...parts.slice(0, -1), { type: 'text', text: last.text + text }];
};

const withCode = (
  parts: readonly EntryPart[],
  { call, language, code, state }: Extract<AnswerEvent, { type: 'code' }>,
): readonly EntryPart[] => {
  const isKnown = parts.some((part) => part.type === 'code' && part.call === call);
  if (isKnown)
    return parts.map((part) =>
      part.type === 'code' && part.call === call ? { ...part, language, code, state } : part,
    );
  const fresh: CodePart = {
    type: 'code',
    call,
    language,
    code,
    state,
    status: null,
    durationMs: null,
    outputs: noOutputs,
    images: [],
    files: [],
  };
  return [...parts, fresh];
};

const changed = (entry: Entry, call: string, change: (part: CodePart) => CodePart): Entry => ({
  ...entry,
  parts: entry.parts.map((part) => (part.type === 'code' && part.call === call ? change(part) : part)),
});
