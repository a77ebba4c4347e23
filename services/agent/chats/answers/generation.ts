import type { Logger } from 'pino';
import { CodeBoxError, hasCode } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import { createSaver } from '../../../waiting/saver.ts';
import { createBoxWorkspace } from '../../box/box-workspace.ts';
import type { ChatBoxes } from '../../box/chat-boxes.ts';
import type { FactsOfBoxes } from '../../box/facts.ts';
import type { Limits } from '../../loop/conversation.ts';
import { converse, type Outcome } from '../../loop/converse.ts';
import type { LanguageModel, ModelMessage } from '../../models/model.ts';
import type { ChatRow } from '../../store/chats.ts';
import type { AnswerEnd, MessageStore } from '../../store/messages.ts';
import type { Forget } from '../files/forget.ts';
import type { Kept } from '../files/kept.ts';
import { createPictures } from '../files/pictures.ts';
import type { Owner } from '../owner.ts';
import type { AnswerLog } from './answer-log.ts';
import { type AnswerRecord, createAnswerRecord } from './answer-record.ts';
import { createApprovals, type Decision } from './approvals.ts';
import { continuityOf } from './continuity.ts';
import { type Question, toConversation, toQuestion, withPreviews } from './question.ts';

export interface GenerationOptions {
  agent: string;
  leaseSeconds: number;
  limits: Limits;
  store: MessageStore;
  boxes: ChatBoxes;
  facts: FactsOfBoxes;
  kept: Kept;
  forget: Forget;
  background: Background;
  log: Logger;
  onBegin: () => void;
  onEnd: (outcome: Pick<Outcome, 'status' | 'rounds'>) => void;
}

/** An answer to generate. */
export interface Task {
  owner: Owner;
  chat: ChatRow;
  request: Question;
  model: LanguageModel;
  start: { chat: string; message: string; question: string; title: string; model: string };
}

interface Live {
  log: AnswerLog;
  stop: AbortController;
  approvals: ReturnType<typeof createApprovals>;
  ended: Promise<void>;
}

/** Progress is saved at most this often, and once more at the end. */
const saveEveryMs = 1000;
/** How long the events of an ended answer stay in memory, for readers that reconnect. */
const rememberedMs = 30_000;
const none = { messages: [], tokens: { input: 0, output: 0 }, rounds: 0 };

/** Generates answers: asks the model, runs its code in the box of the chat, records what happens. */
export const createGeneration = (options: GenerationOptions) => {
  const { agent, leaseSeconds, limits, store, boxes, facts, kept, forget, background, log } = options;
  const live = new Map<string, Live>();
  const running = new Map<string, Live>();
  /** Ends that could not be written because the database was unavailable. */
  const unwritten = new Map<string, AnswerEnd>();

  const saverOf = (message: string, record: () => AnswerRecord) =>
    createSaver({
      background,
      what: 'save an answer',
      everyMs: saveEveryMs,
      save: async () => {
        const { parts } = record();
        await store.save(message, agent, { content: parts.content(), parts: parts.list(), files: parts.files() });
      },
    });

  const talk = async (task: Task, record: AnswerRecord, one: Live): Promise<Outcome & { question: string }> => {
    const { owner, chat, request, model } = task;
    const { signal } = one.stop;
    const files = request.files ?? [];
    const box = await boxes.open(owner, chat, signal);
    const previews = await withPreviews(owner.client, box.id, files);
    const earlier = request.earlier ?? toConversation(await store.history(chat.id));
    const plain = toQuestion(request.content, previews);
    const noted = (lost: NonNullable<ChatRow['lost']>) => `${plain}\n\n[${continuityOf(lost).note}]`;
    // The note is stored with the question, so that later answers know since when the box is another one, whatever
    // becomes of this answer.
    const place = { chat: chat.id, message: task.start.message, agent };
    const lost = await store.takeLost(place, (lost) => ({
      parts: [continuityOf(lost).notice],
      history: [...(request.earlier ?? []), { role: 'user', content: noted(lost) }],
    }));
    if (lost) record.emit(continuityOf(lost).notice);
    const question = lost ? noted(lost) : plain;
    const outcome = await converse({
      model,
      workspace: createBoxWorkspace({ client: owner.client, tenant: owner.tenant, box, facts }),
      messages: [...earlier, { role: 'user', content: question }],
      notes: request.notes ?? [],
      approve:
        (request.approval ?? chat.approval) === 'always' ? (call, stop) => one.approvals.wait(call, stop) : undefined,
      limits,
      onEvent: async (event) => {
        if (event.type === 'code' && event.state === 'waiting') one.approvals.expect(event.call);
        if (event.type === 'ran' && event.files.deleted.length > 0)
          await forget(chat.id, { paths: event.files.deleted });
        await record.note(event);
      },
      signal,
    });
    return { ...outcome, question };
  };

  const attempt = async (task: Task, record: AnswerRecord, one: Live): Promise<Outcome & { question?: string }> => {
    try {
      return await talk(task, record, one);
    } catch (thrown) {
      if (one.stop.signal.aborted) return { status: 'stopped', ...none, error: null };
      if (thrown instanceof CodeBoxError)
        return { status: 'error', ...none, error: { code: thrown.code, detail: thrown.message } };
      log.error({ err: thrown, message: task.start.message }, 'an answer broke');
      return { status: 'error', ...none, error: { code: 'internal', detail: 'Something went wrong in the agent.' } };
    }
  };

  /** The database would refuse an invalid write again, so it is not retried: the sweep marks such an answer as lost. */
  const write = async (message: string, end: AnswerEnd): Promise<void> => {
    try {
      await store.end(message, agent, end);
      unwritten.delete(message);
    } catch (error) {
      if (isAway(error)) unwritten.set(message, end);
      else unwritten.delete(message);
      throw error;
    }
  };

  const writeAgain = async (): Promise<void> => {
    for (const [message, end] of unwritten)
      await background.attempt('write the end of an answer', () => write(message, end));
  };

  const make = async (task: Task, record: AnswerRecord, one: Live): Promise<void> => {
    const { message } = task.start;
    const startedAt = performance.now();
    const { question, ...outcome } = await attempt(task, record, one);
    const { status, tokens, rounds } = outcome;
    // A reader who stopped the answer knows why; when the agent itself stopped it, the reason is reported.
    const error = outcome.error ?? (status === 'stopped' ? reasonOf(one.stop.signal) : null);
    try {
      record.settle();
      const prompt: ModelMessage = { role: 'user', content: question ?? task.request.content };
      const lastSeq = record.log.last() + (error ? 2 : 1);
      const { parts } = record;
      const kept = { content: parts.content(), parts: parts.list(), files: parts.files() };
      const history = [...(task.request.earlier ?? []), prompt, ...outcome.messages];
      await write(message, { status, ...kept, tokens, rounds, lastSeq, error, history });
    } finally {
      running.delete(message);
      record.end({ status, tokens, rounds }, error);
      options.onEnd(outcome);
      const ms = Math.round(performance.now() - startedAt);
      log.info({ chat: task.chat.id, message, status, rounds, ms, code: error?.code }, 'answer');
    }
  };

  return {
    /** Starts to generate an answer that is stored as running. */
    begin(task: Task): void {
      const { message } = task.start;
      const save = saverOf(message, () => record);
      const pictures = createPictures(kept, task.chat.id);
      const record = createAnswerRecord({ type: 'start', ...task.start }, pictures, save);
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      const one: Live = { log: record.log, stop: new AbortController(), approvals: createApprovals(), ended };
      live.set(message, one);
      running.set(message, one);
      options.onBegin();
      background.run('make an answer', () => make(task, record, one).finally(resolve));
      void ended.then(() => setTimeout(() => live.delete(message), rememberedMs).unref());
    },

    /** The events of an answer that runs here, or ended a moment ago. */
    log: (message: string): AnswerLog | undefined => live.get(message)?.log,

    /** Returns false when the answer does not run here. */
    stop(message: string): boolean {
      running.get(message)?.stop.abort();
      return running.has(message);
    },

    /** Resolves when an answer that runs here has ended. */
    ended: async (message: string): Promise<void> => running.get(message)?.ended,

    /** Whether the call was waiting for approval; undefined when the answer does not run here. */
    decide: (message: string, call: string, decision: Decision): boolean | undefined =>
      running.get(message)?.approvals.decide(call, decision),

    /** Renews the leases of the answers that run here, and carries out what other agents have requested of them. */
    async renew(): Promise<void> {
      await writeAgain();
      if (running.size === 0) return;
      const mine = [...running.keys()];
      const rows = new Map((await store.renew(agent, mine, leaseSeconds)).map((row) => [row.id, row]));
      for (const message of mine) {
        const row = rows.get(message);
        // The answer was presumed lost, or was removed with its chat.
        if (!row || row.isStopRequested) running.get(message)?.stop.abort();
        for (const [call, decision] of Object.entries(row?.decisions ?? {}))
          running.get(message)?.approvals.decide(call, decision);
      }
    },

    /** Stops all answers, because the agent stops. */
    async stopAll(): Promise<void> {
      const all = [...running.values()];
      for (const one of all) one.stop.abort(agentStops);
      await Promise.all(all.map(({ ended }) => ended));
      await writeAgain();
    },
  };
};

export type Generation = ReturnType<typeof createGeneration>;

const agentStops = new CodeBoxError('unavailable', 'The agent was stopped during this answer. Ask again.');

const isAway = (error: unknown): boolean =>
  [error, error instanceof Error && error.cause].some((cause) => hasCode(cause, 'unavailable'));

const reasonOf = ({ reason }: AbortSignal): { code: string; detail: string } | null =>
  reason === agentStops ? { code: agentStops.code, detail: agentStops.message } : null;
