import { boxPathSchema, runStatuses } from '#contract';
import type { LoopEvent } from '../../loop/conversation.ts';
import type { StoredFile } from '../../store/stored.ts';
import { mimeOf } from '../files/mime.ts';
import type { Pictures } from '../files/pictures.ts';
import { createParts, isOpen, toEvents } from '../messages/parts.ts';
import { createWholeLinks } from '../messages/sandbox-links.ts';
import type { NewEvent } from '../messages/stored-event.ts';
import { type AnswerLog, createAnswerLog } from './answer-log.ts';

type Start = Extract<NewEvent, { type: 'start' }>;
type Done = Extract<NewEvent, { type: 'done' }>;

const maxFilesPerRun = 20;
const maxToolText = 65_536;

/** Excludes hidden files and those that the agent itself writes. */
const isOfInterest = (path: string): boolean =>
  !path.split('/').some((name) => name.startsWith('.') || name === '__pycache__');

/** Describes a file of the box for storage. */
export const fileAt = (path: string): StoredFile => ({
  path,
  name: path.split('/').at(-1) ?? path,
  sizeBytes: null,
  mime: mimeOf(path),
  blob: null,
});

/** Collects what happens in an answer: as events for followers, and as parts for storage. */
export const createAnswerRecord = (start: Start, pictures: Pictures, onChange: () => void) => {
  const parts = createParts();
  const text = createWholeLinks();
  const log: AnswerLog = createAnswerLog(() => [start, ...toEvents(parts.list())]);
  log.add(start);

  const emit = (event: NewEvent): void => {
    parts.add(event);
    log.add(event);
    onChange();
  };
  const flush = () => {
    const rest = text.flush();
    if (rest !== '') emit({ type: 'text', text: rest });
  };

  const emitFiles = (call: string, paths: readonly string[]) => {
    for (const path of paths.filter(isOfInterest).slice(0, maxFilesPerRun))
      if (boxPathSchema.safeParse(path).success) emit({ type: 'file', call, file: fileAt(path) });
  };

  return {
    log,
    parts,

    async note(event: LoopEvent): Promise<void> {
      if (event.type === 'text') {
        const ready = text.next(event.text);
        if (ready !== '') emit({ type: 'text', text: ready });
        return;
      }
      flush();
      switch (event.type) {
        case 'output': {
          if (event.event.type === 'started' || event.event.type === 'done') return;
          const { event: rest, image } = await pictures.takeOut(event.event);
          if (rest) emit({ type: 'output', call: event.call, event: rest });
          if (image) emit({ type: 'image', call: event.call, image });
          return;
        }
        case 'ran': {
          const { call, durationMs, files } = event;
          const status = runStatuses.find((known) => known === event.status) ?? 'lost';
          emitFiles(call, [...files.created, ...files.modified]);
          const deleted = files.deleted.filter(isOfInterest);
          emit({ type: 'ran', call, status, durationMs, ...(deleted.length > 0 && { deleted }) });
          return;
        }
        case 'tool': {
          emit({ ...event, result: event.result.slice(0, maxToolText) });
          const written = event.name === 'write_file' && event.ok ? event.arguments.path : undefined;
          if (typeof written === 'string')
            emitFiles(event.call, [written.replace(/^(sandbox:)?\/+mnt\/data\/|^\.\/+/, '')]);
          return;
        }
        default:
          emit(event);
      }
    },

    /** Adds an event of the service itself, which the loop does not know. */
    emit,

    /** Ends the answer: no events follow. */
    end(done: Omit<Done, 'type' | 'content' | 'files'>, error: { code: string; detail: string } | null): void {
      if (error) log.add({ type: 'error', ...error });
      log.add({ type: 'done', ...done, content: parts.content(), files: parts.files() });
    },

    /** Flushes text that was held back, and marks code that never finished as stopped. */
    settle(): void {
      flush();
      for (const part of parts.list())
        if (part.type === 'code' && isOpen(part.state)) {
          const { call, language, code } = part;
          emit({ type: 'code', call, language, code, state: 'stopped' });
        }
    },
  };
};

export type AnswerRecord = ReturnType<typeof createAnswerRecord>;
