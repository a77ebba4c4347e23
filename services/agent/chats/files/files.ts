import { Readable } from 'node:stream';
import type { ReadableStream as NodeStream } from 'node:stream/web';
import {
  type Attachment,
  type ChatEntry,
  type Client,
  CodeBoxError,
  decodePath,
  type FileEntry,
  hasCode,
  type ListOptions,
  type Uploaded,
} from '#contract';
import type { ChatBoxes } from '../../box/chat-boxes.ts';
import { previewTable } from '../../box/preview.ts';
import type { ChatRow, ChatStore } from '../../store/chats.ts';
import type { Callers } from '../callers.ts';
import type { Chats } from '../chats.ts';
import type { Owner } from '../owner.ts';
import type { Forget } from './forget.ts';
import type { Kept } from './kept.ts';
import type { Links } from './links.ts';
import { mimeOf } from './mime.ts';

export interface FilesOptions {
  chats: Pick<Chats, 'find'>;
  store: Pick<ChatStore, 'findAny'>;
  boxes: ChatBoxes;
  kept: Kept;
  forget: Forget;
  links: Links;
  /** Returns a gateway client for a key, or for the agent's own key. */
  clientFor: (key: string | undefined) => Client;
  callers: Callers;
}

/** A file to send: its bytes as a stream, with the headers of its source. */
export interface OpenFile {
  name: string;
  mime: string;
  status: number;
  headers: Record<string, string>;
  body: Readable;
}

export interface Range {
  start: number;
  end?: number;
}

/** The folder that the agent itself creates in a box. */
const own = '.codebox';
const maxKeptBytes = 100 * 1024 * 1024;
const passedOn = ['content-length', 'content-range', 'accept-ranges', 'etag', 'last-modified'];

/** Files of chats: in their box, or copied to the blob store. Bytes are streamed through. */
export const createFiles = ({ chats, store, boxes, kept, forget, links, clientFor, callers }: FilesOptions) => {
  const openIn = async (client: Client, box: string, path: string, range?: Range): Promise<OpenFile> => {
    const response = await client.files.open(box, path, { ...(range && { range }) });
    if (response.headers.get('content-disposition') === null) {
      await response.body?.cancel();
      throw new CodeBoxError('invalid_request', 'This is a folder.', {
        errors: [{ pointer: '/path/path', detail: 'is a folder' }],
      });
    }
    const headers = passedOn.flatMap((name) => {
      const value = response.headers.get(name);
      return value === null ? [] : [[name, value] as const];
    });
    return {
      name: (path.split('/').at(-1) ?? path).toWellFormed(),
      mime: mimeOf(path),
      status: response.status,
      headers: Object.fromEntries(headers),
      body: response.body ? Readable.fromWeb(response.body as NodeStream) : Readable.from([]),
    };
  };

  const open = async (owner: Owner, id: string, path: string, range?: Range): Promise<OpenFile> =>
    await openIn(owner.client, boxes.had(await chats.find(owner, id), 'file'), path, range);

  const toUploaded = async (owner: Owner, chat: ChatRow, box: string, entry: FileEntry): Promise<Uploaded> => ({
    ...toAttachment(owner, chat.id, entry),
    preview: await previewTable(owner.client, box, entry.path),
  });

  const toAttachment = (owner: Owner, chat: string, { path, name, sizeBytes }: FileEntry): Attachment => ({
    path,
    name,
    sizeBytes,
    mime: mimeOf(path),
    ...links.path(owner, chat, path),
  });

  /** The first `limit` entries of a folder by name; none while the chat has no box. */
  const entriesOf = async (
    owner: Owner,
    id: string,
    folder: string,
    limit: number,
    options: ListOptions = {},
  ): Promise<FileEntry[]> => {
    const chat = await chats.find(owner, id);
    const entries: FileEntry[] = [];
    if (!(await boxes.isThere(owner, chat))) return entries;
    for await (const entry of owner.client.files.list(boxes.had(chat, 'file'), folder, options)) {
      if (entry.path.split('/')[0] === own) continue;
      entries.push(entry);
      if (entries.length === limit) break;
    }
    return entries;
  };

  return {
    /** The entries of a folder by name, at most `limit`; none while the chat has no box. */
    async list(owner: Owner, id: string, folder: string, limit: number): Promise<ChatEntry[]> {
      const entries = await entriesOf(owner, id, folder, limit);
      return entries.map(({ path, encodedPath, name, type, sizeBytes, modifiedAt }) => {
        const wholePath = encodedPath === undefined ? path : decodePath(encodedPath);
        const link = type === 'file' ? links.path(owner, id, wholePath) : { url: null, expiresAt: null };
        return { path, ...(encodedPath && { encodedPath }), name, type, sizeBytes, modifiedAt, ...link };
      });
    },

    /** The first `limit` entries of all folders, each folder before its contents; none while the chat has no box. */
    all: (owner: Owner, id: string, limit: number, signal: AbortSignal): Promise<FileEntry[]> =>
      entriesOf(owner, id, '', limit, { recursive: true, signal }),

    /** Throws `not_found` for a missing file, `invalid_request` for a folder. */
    open,

    /**
     * Opens the target of a link's token, for anyone who has it; throws `unauthorized` or `forbidden` when the key that
     * the link was made with is no longer valid.
     */
    async openLink(token: string, range: Range | undefined, signal: AbortSignal): Promise<OpenFile> {
      const { chat, path, blob, mime = 'application/octet-stream', key } = links.open(token);
      const row = await store.findAny(chat);
      if (!row) throw new CodeBoxError('not_found', 'The chat was removed.');
      await callers.find(key);
      if (blob !== undefined) return { name: '', mime, status: 200, headers: {}, body: await kept.open(blob, signal) };
      const box = boxes.had(row, 'file');
      try {
        return await openIn(clientFor(key), box, path ?? '', range);
      } catch (error) {
        if (hasCode(error, 'unauthorized')) callers.forget(key);
        // The file was deleted without the agent noticing, for example in a terminal.
        if (path !== undefined && hasCode(error, 'not_found')) await forget(chat, { paths: [path] });
        throw error;
      }
    },

    /**
     * Uploads a file to the box of the chat, whole or not at all; with `create`, only when there is no such file yet.
     */
    async put(
      owner: Owner,
      id: string,
      path: string,
      body: Readable,
      signal: AbortSignal,
      create = false,
    ): Promise<Uploaded> {
      const chat = await chats.find(owner, id);
      const { id: box } = await boxes.open(owner, chat, signal);
      // Not `Readable.toWeb`, which reads ahead while nobody consumes.
      const content = ReadableStream.from<Uint8Array>(body.iterator({ destroyOnReturn: false }));
      const entry = await owner.client.files.write(box, path, content, { signal, create });
      return await toUploaded(owner, chat, box, entry);
    },

    async remove(owner: Owner, id: string, path: string): Promise<void> {
      await owner.client.files.delete(boxes.had(await chats.find(owner, id), 'file'), path);
      await forget(id, { below: path });
    },

    /** Copies a file to the blob store, where it survives the box. */
    async keep(owner: Owner, id: string, path: string): Promise<Attachment> {
      const file = await open(owner, id, path);
      const sizeBytes = Number(file.headers['content-length'] ?? Number.NaN);
      if (!(sizeBytes <= maxKeptBytes)) {
        file.body.destroy();
        throw new CodeBoxError('too_large', 'Files of up to 100 MiB can be kept.');
      }
      const blob = await kept.keep(id, file.body, sizeBytes);
      const copy = { path, name: file.name, mime: file.mime, sizeBytes };
      return links.file(owner, id, { ...copy, blob });
    },
  };
};

export type Files = ReturnType<typeof createFiles>;
