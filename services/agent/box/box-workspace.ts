import { type Box, type Client, CodeBoxError, type ExecutionEvent, type FileEntry, hasCode } from '#contract';
import { orAborted } from '../../waiting/or-aborted.ts';
import type { Workspace } from '../loop/workspace.ts';
import type { FactsOfBoxes } from './facts.ts';
import { createGathered } from './gathered.ts';

/** How long an interrupted run may take to end, including a new kernel. */
const endMs = 30_000;
const maxEntries = 200;
const maxInstallText = 4000;
const nobodyTypes = '\n[The code waits for input, but nobody can type here. It was stopped: use variables or files.]\n';

interface BoxWorkspace {
  /** The client of the tenant that owns the box. */
  client: Client;
  tenant: string;
  box: Box;
  facts: FactsOfBoxes;
  /** Wall time of one run. */
  executionSeconds?: number;
}

/** Converts a path as models write it to one relative to the working folder. */
const toBoxPath = (path: string): string => path.replace(/^(sandbox:)?\/+mnt\/data\/?|^\.\/+|\/+$/g, '');

/**
 * Runs code, commands and installations of the loop in a chat's box, over the public API. Code runs in the default
 * context of its language.
 */
export const createBoxWorkspace = ({ client, tenant, box, facts, executionSeconds = 120 }: BoxWorkspace): Workspace => {
  const interrupt = (execution: string) => client.executions.interrupt(box.id, execution).catch(() => {});

  const start = async (code: { language: string; code: string }, late: AbortSignal, signal: AbortSignal) => {
    const body = { ...code, autoInstall: true, timeoutSeconds: executionSeconds };
    const opening = client.executions.stream(box.id, body, { signal: late });
    try {
      return await orAborted(opening, signal);
    } catch (error) {
      // The execution may still start after we gave up on it.
      opening.then(({ id }) => interrupt(id)).catch(() => {});
      throw error;
    }
  };

  return {
    facts: (signal) => facts.read({ client, tenant, box }, executionSeconds, signal),

    async run(code, onEvent, signal) {
      signal.throwIfAborted();
      const late = new AbortController();
      let timer: NodeJS.Timeout | undefined;
      const stream = await start(code, late.signal, signal);
      const stop = () => {
        timer = setTimeout(() => late.abort(signal.reason), endMs);
        void interrupt(stream.id);
      };
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      const gathered = createGathered();
      let done: Extract<ExecutionEvent, { type: 'done' }> | undefined;
      try {
        for await (const event of stream) {
          gathered.add(event);
          if (event.type === 'done') done = event;
          if (event.type === 'input_request') {
            gathered.note(nobodyTypes);
            void interrupt(stream.id);
          }
          await onEvent(event);
        }
      } catch (error) {
        void interrupt(stream.id);
        throw error;
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
      }
      if (done === undefined) throw new CodeBoxError('unavailable', 'The stream ended without the result of the code.');
      return gathered.end(stream.id, done);
    },

    async install(packages, manager, signal) {
      try {
        const { status, installed, stdout, stderr } = await client.packages.install(
          box.id,
          { packages: [...packages], manager },
          { signal },
        );
        const named = (installed ?? []).map(({ name, version }) => `${name} ${version}`).join(', ');
        if (status === 'ok')
          return { ok: true, text: named ? `Installed ${named}.` : 'The packages were installed already.' };
        return { ok: false, text: `${stdout}${stderr}`.slice(-maxInstallText) };
      } catch (error) {
        // The box has no package source, or these are not names of packages.
        if (!(error instanceof CodeBoxError) || !['conflict', 'invalid_request'].includes(error.code)) throw error;
        return { ok: false, text: [error.message, ...error.errors.map(({ detail }) => detail)].join(' ') };
      }
    },

    async list(path, signal) {
      const entries: FileEntry[] = [];
      for await (const entry of client.files.list(box.id, toBoxPath(path), { signal })) {
        if (entry.name !== '.codebox') entries.push(entry);
        if (entries.length >= maxEntries) break;
      }
      return entries;
    },

    async read(path, maxBytes, signal) {
      const read = (range?: { start: number; end: number }) =>
        client.files.open(box.id, toBoxPath(path), { signal, ...(range && { range }) });
      const response = await read({ start: 0, end: maxBytes - 1 }).catch((error: unknown) => {
        if (hasCode(error, 'range_not_satisfiable')) return undefined;
        throw error;
      });
      if (response === undefined) return { text: '', isWhole: true, sizeBytes: 0 };
      const bytes = new Uint8Array(await response.arrayBuffer());
      const sizeBytes = Number(/\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1] ?? bytes.length);
      return { text: new TextDecoder().decode(bytes), isWhole: bytes.length >= sizeBytes, sizeBytes };
    },

    async write(path, text, signal) {
      await client.files.write(box.id, toBoxPath(path), text, { signal });
    },
  };
};
