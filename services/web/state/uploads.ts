import { hasCode, type Uploaded } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { faultText } from './fault.ts';
import { newId } from './new-id.ts';
import { createStore } from './store.ts';

/** A file that is being uploaded to a chat, or has been. */
export interface Upload {
  id: string;
  name: string;
  sizeBytes: number;
  /** From 0 to 1. */
  share: number;
  done: Uploaded | null;
  fault: string | null;
}

/** How many files are uploaded at the same time. */
const lanes = 3;

/** How many names are tried: others may take them meanwhile. */
const maxNames = 5;

const inFolder = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

/** `image-2.png` for `image.png`: the first variant that is not taken. */
const freeName = (name: string, taken: ReadonlySet<string>): string => {
  const [, stem = name, ending = ''] = /^(.+?)((?:\.tar)?\.[^.]+)$/.exec(name) ?? [];
  let number = 2;
  while (taken.has(`${stem}-${number}${ending}`)) number += 1;
  return `${stem}-${number}${ending}`;
};

/** Uploads a file under its name, or under the next free one: an existing file is never replaced. */
const underFreeName = async (
  name: string,
  upload: (name: string) => Promise<Uploaded>,
  namesThere: () => Promise<readonly string[]>,
): Promise<Uploaded> => {
  for (let tried = name, count = 1; ; count++) {
    try {
      return await upload(tried);
    } catch (error) {
      const isTaken = hasCode(error, 'precondition_failed');
      if (!isTaken || count === maxNames) throw error;
      tried = freeName(name, new Set(await namesThere()));
    }
  }
};

/** Uploads files to a chat, a few at a time. */
export const createUploads = (client: AgentClient, ensureChat: () => Promise<string>) => {
  const store = createStore<readonly Upload[]>([], { paceMs: 60 });
  const stops = new Map<string, AbortController>();
  const queue: { id: string; folder: string; file: File }[] = [];
  let sending = 0;

  const change = (id: string, part: Partial<Upload>) =>
    store.set((was) => was.map((upload) => (upload.id === id ? { ...upload, ...part } : upload)));

  const send = async ({ id, folder, file }: (typeof queue)[number]): Promise<void> => {
    const stop = stops.get(id);
    if (stop === undefined || stop.signal.aborted) return;
    try {
      const chat = await ensureChat();
      const onProgress = (share: number) => change(id, { share });
      const options = { signal: stop.signal, onProgress };
      const upload = (name: string) => client.files.upload(chat, inFolder(folder, name), file, options);
      const done = await underFreeName(file.name, upload, async () =>
        (await client.files.list(chat, folder)).items.map(({ name }) => name),
      );
      change(id, { share: 1, name: done.name, done });
    } catch (error) {
      if (!stop.signal.aborted) change(id, { fault: faultText(error) });
    } finally {
      stops.delete(id);
    }
  };

  const pump = () => {
    while (sending < lanes) {
      const next = queue.shift();
      if (next === undefined) return;
      sending += 1;
      void send(next).finally(() => {
        sending -= 1;
        pump();
      });
    }
  };

  return {
    store,

    add(files: Iterable<File>, folder = ''): void {
      for (const file of files) {
        const id = newId();
        stops.set(id, new AbortController());
        const upload: Upload = { id, name: file.name, sizeBytes: file.size, share: 0, done: null, fault: null };
        store.set((was) => [...was, upload]);
        queue.push({ id, folder, file });
      }
      pump();
    },

    /** Removes a file from the list and stops its upload. A complete file stays in the box. */
    remove(id: string): void {
      stops.get(id)?.abort(new Error('taken away'));
      stops.delete(id);
      store.set((was) => was.filter((upload) => upload.id !== id));
    },

    clear: () => store.set(() => []),

    /** Restores entries that were cleared. */
    restore: (uploads: readonly Upload[]) => store.set((was) => [...uploads, ...was]),
  };
};
