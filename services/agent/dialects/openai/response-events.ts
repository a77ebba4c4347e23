import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import type { AnswerEvent, Attachment } from '#contract';
import { createCodeLog } from '../code-log.ts';
import { absolute, linksTo, withOrigin } from '../links.ts';
import { type CodeItem, createCodeItem } from './code-item.ts';
import { containerId } from './ids.ts';
import { createMessageItem, type MessageItem } from './message-item.ts';
import { openResponse, type ResponseShape, toUsage } from './response-shape.ts';

/**
 * Converts the events of an answer to those of a streamed response; the last one has the whole response. Pictures are
 * outputs of their code, and files are cited where the text links to them. Links begin with `origin`.
 */
export const createResponseEvents = (shape: ResponseShape, origin: string) => {
  const response = openResponse(shape);
  const container = containerId(shape.chat);
  const log = createCodeLog();
  const codes = new Map<string, CodeItem>();
  const files = new Map<string, Attachment>();
  const cited = new Set<string>();
  let message: MessageItem | undefined;
  let failure: { code: string; detail: string } | undefined;
  let sequence = 0;
  const nextNumber = () => sequence++;

  const placeOf = (prefix: string) => {
    const index = response.output.length;
    return { id: `${prefix}_${shape.id.slice('resp_'.length)}_${index}`, index, nextNumber };
  };

  const openMessage = (): ResponseStreamEvent[] => {
    if (message) return [];
    message = createMessageItem(placeOf('msg'));
    response.output.push(message.item);
    return message.open();
  };

  /** `isLast`: no other text follows, so this one cites the files that no text names. */
  const closeMessage = (isLast: boolean): ResponseStreamEvent[] => {
    if (!message) return [];
    const text = message.text();
    const named = [...files.values()].filter(({ name }) => linksTo(text, name).length > 0);
    for (const { path } of named) cited.add(path);
    const unnamed = isLast ? [...files.values()].filter(({ path }) => !cited.has(path)) : [];
    const events = message.close(container, named, unnamed);
    response.output_text += text;
    message = undefined;
    return events;
  };

  const openCode = (call: string, code: string): ResponseStreamEvent[] => {
    const closed = closeMessage(false);
    const item = createCodeItem(placeOf('ci'), container, code);
    codes.set(call, item);
    response.output.push(item.item);
    return [...closed, ...item.open()];
  };

  const closeCode = (call: string, status: 'completed' | 'incomplete' | 'failed'): ResponseStreamEvent[] => {
    const item = codes.get(call);
    return item?.isOpen() ? item.close(status, log.of(call)?.output ?? '') : [];
  };

  const onCode = ({ call, code, state }: Extract<AnswerEvent, { type: 'code' }>): ResponseStreamEvent[] => {
    const known = codes.get(call);
    // Code that runs again, after a missing package was installed, becomes another item.
    const isNew = known === undefined || (!known.isOpen() && state === 'running');
    const events = isNew ? openCode(call, code) : [];
    const item = codes.get(call);
    if (state === 'declined' || state === 'stopped') return [...events, ...closeCode(call, 'incomplete')];
    if (state === 'running' && item?.item.status === 'in_progress') events.push(item.interpret());
    return events;
  };

  const onDone = (event: Extract<AnswerEvent, { type: 'done' }>): ResponseStreamEvent[] => {
    for (const file of event.files) files.set(file.path, file);
    const events = [...codes.keys()].flatMap((call) => closeCode(call, 'incomplete'));
    const hasUncited = [...files.values()].some(
      ({ path, name }) => !cited.has(path) && linksTo(message?.text() ?? '', name).length === 0,
    );
    if (hasUncited) events.push(...openMessage());
    events.push(...closeMessage(true));
    if (event.tokens) response.usage = toUsage(event.tokens);
    return [...events, end(event.status)];
  };

  const end = (status: Extract<AnswerEvent, { type: 'done' }>['status']): ResponseStreamEvent => {
    if (status === 'error') {
      response.status = 'failed';
      const code = failure?.code === 'too_many_requests' ? 'rate_limit_exceeded' : 'server_error';
      response.error = { code, message: failure?.detail ?? 'The answer could not be generated.' };
      return { type: 'response.failed', response, sequence_number: nextNumber() };
    }
    if (status === 'ok') {
      response.status = 'completed';
      return { type: 'response.completed', response, sequence_number: nextNumber() };
    }
    response.status = 'incomplete';
    response.incomplete_details = status === 'limit' ? { reason: 'max_messages' } : null;
    return { type: 'response.incomplete', response, sequence_number: nextNumber() };
  };

  return {
    /** The response so far. */
    response: (): Response => response,

    next(event: AnswerEvent): ResponseStreamEvent[] {
      log.add(event);
      switch (event.type) {
        case 'start':
          return [
            { type: 'response.created', response: structuredClone(response), sequence_number: nextNumber() },
            { type: 'response.in_progress', response: structuredClone(response), sequence_number: nextNumber() },
          ];
        case 'text': {
          if (event.text === '') return [];
          const opened = openMessage();
          const appended = message?.append(withOrigin(event.text, origin));
          return appended ? [...opened, appended] : opened;
        }
        case 'code':
          return onCode(event);
        case 'image':
          codes.get(event.call)?.show(absolute(event.image.url, origin));
          return [];
        case 'file':
          files.set(event.file.path, event.file);
          return [];
        case 'ran':
          return closeCode(event.call, event.status === 'ok' || event.status === 'error' ? 'completed' : 'failed');
        case 'error':
          failure = event;
          return [];
        case 'done':
          return onDone(event);
        default:
          return [];
      }
    },
  };
};
