import { boxPathSchema, runStatuses } from '#contract';
import type { LoopEvent } from '../loop/conversation.ts';
import type { StoredFile } from '../store/stored.ts';
import { type AnswerLog, createAnswerLog } from './answer-log.ts';
import { mimeOf } from './mime.ts';
import { createParts, isOpen, toEvents } from './parts.ts';
import type { Pictures } from './pictures.ts';
import { createWholeLinks } from './sandbox-links.ts';
import type { NewEvent } from './stored-event.ts';

type Start = Extract<NewEvent, { type: 'start' }>;
type Done = Extract<NewEvent, { type: 'done' }>;

const maxFilesPerRun = 20;
const maxToolText = 65_536;

/** Neither what nobody wants to see nor what the agent itself writes. */
const isOfInterest = (path: string): boolean =>
  !path.split('/').some((name) => name.startsWith('.') || name === '__pycache__');

/** A file of the box as it is noted. */
export const fileAt = (path: string): StoredFile => ({
  path,
  name: path.split('/').at(-1) ?? path,
  sizeBytes: null,
  mime: mimeOf(path),
  blob: null,
});

/** What happens in an answer, as its followers hear it and as it is kept. */
export const createAnswerRecord = (start: Start, pictures: Pictures, onChange: () => void) => {
  const parts = createParts();
  const text = createWholeLinks();
  const log: AnswerLog = createAnswerLog(() => [start, ...toEvents(parts.list())]);
  log.add(start);

  const tell = (event: NewEvent): void => {
    parts.add(event);
    log.add(event);
    onChange();
  };
  const flush = () => {
    const rest = text.flush();
    if (rest !== '') tell({ type: 'text', text: rest });
  };

  const tellFiles = (call: string, paths: readonly string[]) => {
    for (const path of paths.filter(isOfInterest).slice(0, maxFilesPerRun))
      if (boxPathSchema.safeParse(path).success) tell({ type: 'file', call, file: fileAt(path) });
  };

  return {
    log,
    parts,

    async note(event: LoopEvent): Promise<void> {
      if (event.type === 'text') {
        const ready = text.next(event.text);
        if (ready !== '') tell({ type: 'text', text: ready });
        return;
      }
      flush();
      switch (event.type) {
        case 'output': {
          if (event.event.type === 'started' || event.event.type === 'done') return;
          const { event: rest, image } = await pictures.takeOut(event.event);
          if (rest) tell({ type: 'output', call: event.call, event: rest });
          if (image) tell({ type: 'image', call: event.call, image });
          return;
        }
        case 'ran': {
          const { call, durationMs, files } = event;
          const status = runStatuses.find((known) => known === event.status) ?? 'lost';
          tellFiles(call, [...files.created, ...files.modified]);
          const deleted = files.deleted.filter(isOfInterest);
          tell({ type: 'ran', call, status, durationMs, ...(deleted.length > 0 && { deleted }) });
          return;
        }
        case 'tool': {
          tell({ ...event, result: event.result.slice(0, maxToolText) });
          const written = event.name === 'write_file' && event.ok ? event.arguments.path : undefined;
          if (typeof written === 'string')
            tellFiles(event.call, [written.replace(/^(sandbox:)?\/+mnt\/data\/|^\.\/+/, '')]);
          return;
        }
        default:
          tell(event);
      }
    },

    /** Of the service itself: what the loop does not know. */
    tell,

    /** The end: nothing comes after it. */
    end(done: Omit<Done, 'type' | 'content' | 'files'>, error: { code: string; detail: string } | null): void {
      if (error) log.add({ type: 'error', ...error });
      log.add({ type: 'done', ...done, content: parts.content(), files: parts.files() });
    },

    /** Tells what is held back; code that has not come to its end never will. */
    settle(): void {
      flush();
      for (const part of parts.list())
        if (part.type === 'code' && isOpen(part.state)) {
          const { call, language, code } = part;
          tell({ type: 'code', call, language, code, state: 'stopped' });
        }
    },
  };
};

export type AnswerRecord = ReturnType<typeof createAnswerRecord>;
