import type { Uploaded } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { faultText } from './fault.ts';
import { createStore } from './store.ts';

/** A file on its way into a chat, or there. */
export interface Upload {
  id: string;
  name: string;
  sizeBytes: number;
  /** From 0 to 1. */
  share: number;
  done: Uploaded | null;
  fault: string | null;
}

/** How many are sent at the same moment. */
const lanes = 3;

/** Files that are put into a chat, a few at a time. */
export const createUploads = (client: AgentClient, ensureChat: () => Promise<string>) => {
  const store = createStore<readonly Upload[]>([], { paceMs: 60 });
  const stops = new Map<string, AbortController>();
  const queue: { id: string; path: string; file: File }[] = [];
  let sending = 0;

  const change = (id: string, part: Partial<Upload>) =>
    store.set((was) => was.map((upload) => (upload.id === id ? { ...upload, ...part } : upload)));

  const send = async ({ id, path, file }: (typeof queue)[number]): Promise<void> => {
    const stop = stops.get(id);
    if (stop === undefined || stop.signal.aborted) return;
    try {
      const chat = await ensureChat();
      const onProgress = (share: number) => change(id, { share });
      const done = await client.files.upload(chat, path, file, { signal: stop.signal, onProgress });
      change(id, { share: 1, done });
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
        const id = crypto.randomUUID();
        stops.set(id, new AbortController());
        const upload: Upload = { id, name: file.name, sizeBytes: file.size, share: 0, done: null, fault: null };
        store.set((was) => [...was, upload]);
        queue.push({ id, path: folder === '' ? file.name : `${folder}/${file.name}`, file });
      }
      pump();
    },

    /** Takes one away; one that is on its way is stopped. The file itself stays in the box. */
    remove(id: string): void {
      stops.get(id)?.abort(new Error('taken away'));
      stops.delete(id);
      store.set((was) => was.filter((upload) => upload.id !== id));
    },

    clear: () => store.set(() => []),
  };
};

export type Uploads = ReturnType<typeof createUploads>;
