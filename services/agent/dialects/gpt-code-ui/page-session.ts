import type { AnswerEvent, ExecutionEvent } from '#contract';
import type { Cells } from '../../chats/console/cells.ts';
import type { Files } from '../../chats/files/files.ts';
import type { Owner } from '../../chats/owner.ts';
import { createAnswerText } from '../answer-markdown.ts';
import { tokenOf } from '../links.ts';
import type { Turns } from '../turns.ts';
import { readWhole } from '../whole-file.ts';
import { createResults, pictureOf, type Result, textOf } from './results.ts';

export interface PageSessionOptions {
  turns: Turns;
  files: Files;
  cells: Cells;
  onError: (error: unknown) => void;
}

interface PageSessionParts extends PageSessionOptions {
  /** Reports by how many characters the results have grown or shrunk. */
  onSize: (by: number) => void;
}

/** The first content that the page shows: code that it sends back to run, or the whole answer. */
export interface Generated {
  code: string | null;
  text: string;
  failure?: string;
}

const session = 'gpt-code-ui';
const maxContext = 2000;
const maxImageBytes = 10 * 1024 * 1024;

/**
 * The session of one person on the page of gpt-code-ui. An answer pauses at its first code until the page sends that
 * back to run; from then on it continues by itself, and the page polls its text and output.
 */
export const createPageSession = ({ turns, files, cells, onError, onSize }: PageSessionParts) => {
  const results = createResults({ onSize });
  let context = '';
  let pending: { chat: string; call: string; code: string } | undefined;
  let leave = new AbortController();
  let answering: Promise<void> = Promise.resolve();
  let beginning: Promise<unknown> = Promise.resolve();

  /** Stops the running answer or code, and begins something else in its place; of several calls at once, one after the other. */
  const replace = <Begun>(begin: (signal: AbortSignal) => Promise<Begun>): Promise<Begun> => {
    leave.abort();
    const begun = beginning.then(async () => {
      // That of an earlier call, which has begun meanwhile.
      leave.abort();
      await answering;
      pending = undefined;
      leave = new AbortController();
      return await begin(leave.signal);
    });
    beginning = begun.catch(() => {});
    return begun;
  };

  const addImage = async (url: string, mime: string, signal: AbortSignal): Promise<void> => {
    if (mime !== 'image/png' && mime !== 'image/jpeg') return results.add('message', `![picture](${url})`);
    const { body } = await files.openLink(tokenOf(url), undefined, signal);
    const bytes = await readWhole(body, maxImageBytes);
    if (bytes) results.add(mime, bytes.toString('base64'));
  };

  const addOutput = (event: ExecutionEvent): void => {
    const picture: Result | undefined = pictureOf(event);
    if (picture) results.add(picture.type, picture.value);
    else results.add('message', textOf(event));
  };

  const addFile = (path: string): void => {
    const name = path.replaceAll(/[[\]\\]/g, '\\$&');
    results.add('message', `[Download ${name}](/gpt-code-ui/download?file=${encodeURIComponent(path)})`);
  };

  /** Passes the first output to `show`, and everything after it to the results that are polled. */
  const follow = async (
    owner: Owner,
    events: AsyncIterable<AnswerEvent>,
    signal: AbortSignal,
    show: (what: Generated) => void,
  ) => {
    const toText = createAnswerText('');
    let unshown = '';
    let isShown = false;
    let before = 0;
    let failure: string | undefined;
    let chat = '';
    const showResult = () => {
      if (isShown) results.add('message', unshown.trim());
      unshown = '';
    };
    for await (const event of events) {
      unshown += toText(event);
      if (event.type === 'start') chat = event.chat;
      if (event.type === 'code' && event.state === 'waiting') {
        if (isShown) {
          showResult();
          await turns.approve(owner, chat, { call: event.call, approved: true });
        } else {
          pending = { chat, call: event.call, code: event.code };
          show({ code: event.code, text: unshown.trim() });
          isShown = true;
          unshown = '';
        }
      }
      if (event.type === 'code' && event.state === 'running') before = results.count();
      if (event.type === 'output') addOutput(event.event);
      if (event.type === 'image')
        await addImage(event.image.url, event.image.mime, signal).catch((error: unknown) => {
          // The answer goes on without it.
          onError(error);
          results.add('message', 'A picture could not be read.');
        });
      if (event.type === 'file') addFile(event.file.path);
      // The page waits for something to show.
      if (event.type === 'ran' && results.count() === before) results.add('message', 'Done. There is no output.');
      if (event.type === 'error') failure = event.detail;
    }
    pending = undefined;
    if (!isShown) return show({ code: null, text: unshown.trim(), ...(failure !== undefined && { failure }) });
    showResult();
    if (failure !== undefined) results.add('message', `Error from API: ${failure}`);
  };

  return {
    drain: () => results.drain(),

    /** Stops the running answer or code. */
    settle: (): Promise<void> => replace(async () => {}),

    /** Adds text to the next prompt. */
    inject(text: string): void {
      context = `${context}${text}\n`.slice(-maxContext);
    },

    chat: (owner: Owner) => turns.chatOf(owner, session),

    async generate(owner: Owner, prompt: string, model: string | undefined, modelKey: string | undefined) {
      const { shown } = await replace(async (signal) => {
        const turn = await turns.begin(owner, {
          input: {
            notes: context === '' ? [] : [`The reader's page reports: ${context}`],
            earlier: [],
            question: prompt,
            files: [],
            earlierFiles: [],
          },
          session,
          keep: 'always',
          approval: 'always',
          model,
          modelKey,
          signal,
        });
        context = '';
        const shown = new Promise<Generated>((show, fail) => {
          answering = follow(owner, turn.events, signal, show).catch((error: unknown) => {
            onError(error);
            fail(error);
          });
        });
        return { shown };
      });
      return await shown;
    },

    /** Runs code: that of the pending answer, which then continues, or any other, which ends the answer. */
    async run(owner: Owner, code: string): Promise<void> {
      if (pending && pending.code.trim() === code.trim()) {
        const { chat, call } = pending;
        pending = undefined;
        return await turns.approve(owner, chat, { call, approved: true });
      }
      await replace(async (signal) => {
        const { events } = await cells.stream(owner, await turns.chatOf(owner, session), { code }, signal);
        const before = results.count();
        const print = async () => {
          for await (const event of events) {
            addOutput(event);
            if (event.type === 'done') for (const path of event.files?.created ?? []) addFile(path);
          }
          if (results.count() === before) results.add('message', 'Done. There is no output.');
        };
        answering = print().catch(onError);
      });
    },

    async restart(owner: Owner): Promise<void> {
      await replace(async () => {
        await cells.restart(owner, await turns.chatOf(owner, session));
        results.add('message', 'Kernel is ready.');
      });
    },
  };
};

export type PageSession = ReturnType<typeof createPageSession>;
