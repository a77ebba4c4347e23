import type { AnswerEvent, Message, Part } from '#contract';
import type { MessageRow } from '../../store/messages.ts';
import type { StoredPart } from '../../store/stored.ts';
import type { Links } from '../files/links.ts';
import type { Owner } from '../owner.ts';
import { settled } from './parts.ts';
import { withAddresses } from './sandbox-links.ts';
import type { StoredEvent } from './stored-event.ts';

/** How many URLs one message may contain. Sealing a URL takes tens of microseconds. */
const maxAddresses = 500;

/** Renders messages and events of a chat for a reader, with URLs that are valid from now on, for that owner. */
export const createPresenter = (links: Links) => (owner: Pick<Owner, 'key'>, chat: string) => {
  /**
   * Returns a function that adds URLs to the texts of one message: a file that is named again has the same URL; beyond
   * the limit, files get none.
   */
  const createAddressed = (deleted?: ReadonlySet<string>) => {
    const addresses = new Map<string, string>();
    const addressOf = (path: string): string | undefined => {
      const known = addresses.get(path);
      if (known !== undefined || addresses.size >= maxAddresses || deleted?.has(path)) return known;
      const { url } = links.path(owner, chat, path);
      addresses.set(path, url);
      return url;
    };
    return (text: string) => withAddresses(text, addressOf);
  };

  const renderPart = (part: StoredPart, addressed: (text: string) => string): Part => {
    if (part.type === 'text') return { ...part, text: addressed(part.text) };
    if (part.type !== 'code') return part;
    return {
      ...part,
      images: part.images.map((image) => links.image(owner, chat, image)),
      files: part.files.map((file) => links.file(owner, chat, file)),
    };
  };

  return {
    event(event: StoredEvent): AnswerEvent {
      if (event.type === 'text') return { ...event, text: createAddressed()(event.text) };
      if (event.type === 'image') return { ...event, image: links.image(owner, chat, event.image) };
      if (event.type === 'file') return { ...event, file: links.file(owner, chat, event.file) };
      if (event.type !== 'done') return event;
      const files = event.files.map((file) => links.file(owner, chat, file));
      return { ...event, content: createAddressed()(event.content), files };
    },

    message(row: MessageRow): Message {
      const addressed = createAddressed(new Set(row.files.flatMap(({ path, isGone }) => (isGone ? [path] : []))));
      return {
        id: row.id,
        role: row.role,
        status: row.status,
        content: addressed(row.content),
        parts:
          row.role === 'user'
            ? [{ type: 'text', text: row.content }]
            : (row.status === 'running' ? row.parts : settled(row.parts)).map((part) => renderPart(part, addressed)),
        files: row.files.map((file) => links.file(owner, chat, file)),
        model: row.model,
        tokens: row.inputTokens === null ? null : { input: row.inputTokens, output: row.outputTokens ?? 0 },
        rounds: row.rounds,
        error: row.error,
        createdAt: row.createdAt.toISOString(),
      };
    },
  };
};

export type Presenter = ReturnType<typeof createPresenter>;
