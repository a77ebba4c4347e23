import type { CodeOutput } from '#contract';
import type { StoredCode, StoredFile, StoredImage, StoredPart } from '../../store/stored.ts';
import { createOutputs, type Outputs } from './outputs.ts';
import type { NewEvent } from './stored-event.ts';

interface CodeBuilder {
  part: StoredCode;
  outputs: Outputs;
}

/** How many characters of displayed data one answer keeps: it is saved repeatedly while the answer runs. */
const richCharacters = 8_000_000;

/** Builds the parts of a message from the events of its answer. */
export const createParts = () => {
  const parts: (Exclude<StoredPart, StoredCode> | CodeBuilder)[] = [];
  const byCall = new Map<string, CodeBuilder>();
  const files = new Map<string, StoredFile>();
  const rich = { room: richCharacters };
  let content = '';

  const addText = (text: string) => {
    content += text;
    const before = parts.at(-1);
    if (before && 'type' in before && before.type === 'text') before.text += text;
    else parts.push({ type: 'text', text });
  };

  const addCode = ({ call, language, code, state }: Extract<NewEvent, { type: 'code' }>) => {
    const known = byCall.get(call);
    // Code that runs again after a repair has the same call.
    if (known) Object.assign(known.part, { language, code, state });
    else {
      const empty = { status: null, durationMs: null, outputs: [], images: [], files: [] };
      const builder: CodeBuilder = {
        part: { type: 'code', call, language, code, state, ...empty },
        outputs: createOutputs(rich),
      };
      byCall.set(call, builder);
      parts.push(builder);
    }
  };

  const addToCall = (event: NewEvent) => {
    const code = 'call' in event && event.call !== null ? byCall.get(event.call) : undefined;
    if (!code) return;
    if (event.type === 'output') code.outputs.add(event.event);
    if (event.type === 'image') code.outputs.add({ type: 'image', index: code.part.images.push(event.image) - 1 });
    if (event.type === 'file') code.part.files.push(event.file);
    if (event.type === 'ran') {
      const { status, durationMs, deleted } = event;
      Object.assign(code.part, { status, durationMs, ...(deleted && { deleted }) });
      forget(deleted);
    }
  };

  /** Marks these files as deleted in the parts so far. */
  const forget = (deleted: readonly string[] = []) => {
    const paths = new Set(deleted);
    if (paths.size === 0) return;
    const marked = (file: StoredFile) => (paths.has(file.path) ? { ...file, isGone: true } : file);
    for (const { part } of byCall.values()) part.files = part.files.map(marked);
    for (const file of files.values()) files.set(file.path, marked(file));
  };

  const add = (event: NewEvent): void => {
    if (event.type === 'file') files.set(event.file.path, event.file);
    switch (event.type) {
      case 'text':
        addText(event.text);
        break;
      case 'code':
        addCode(event);
        break;
      case 'tool':
      case 'notice':
        parts.push({ ...event });
        break;
      default:
        addToCall(event);
    }
  };

  return {
    add,
    content: (): string => content,
    files: (): StoredFile[] => [...files.values()],
    list: (): StoredPart[] =>
      parts.map((part) => ('type' in part ? { ...part } : { ...part.part, outputs: part.outputs.list() })),
  };
};

/** The events that produce these parts, as few as possible. */
export const toEvents = (parts: readonly StoredPart[]): NewEvent[] =>
  parts.flatMap((part): NewEvent[] => {
    if (part.type !== 'code') return [part];
    const { call, language, code, state, status, durationMs, deleted } = part;
    const placed = new Set(part.outputs.map((output) => (output.type === 'image' ? output.index : undefined)));
    const unplaced = part.images.filter((_, index) => !placed.has(index));
    return [
      { type: 'code', call, language, code, state },
      ...part.outputs.flatMap((event) => outputOf(call, event, part.images)),
      ...unplaced.map((image) => ({ type: 'image' as const, call, image })),
      ...part.files.map((file) => ({ type: 'file' as const, call, file })),
      ...(status === null
        ? []
        : [{ type: 'ran' as const, call, status, durationMs: durationMs ?? 0, ...(deleted && { deleted }) }]),
    ];
  });

const outputOf = (call: string, output: CodeOutput, images: readonly StoredImage[]): NewEvent[] => {
  if (output.type !== 'image') return [{ type: 'output', call, event: output }];
  const image = images[output.index];
  return image ? [{ type: 'image', call, image }] : [];
};

/** Whether code with this state has yet to end. */
export const isOpen = (state: StoredCode['state']): boolean => state === 'waiting' || state === 'running';

/** The parts of an ended answer. When its agent died, they may contain code that nobody runs any more. */
export const settled = (parts: readonly StoredPart[]): StoredPart[] =>
  parts.map((part) => (part.type === 'code' && isOpen(part.state) ? { ...part, state: 'stopped' } : part));
