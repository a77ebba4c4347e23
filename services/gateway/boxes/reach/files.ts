import type { Readable } from 'node:stream';
import {
  CodeBoxError,
  encodePath,
  type FileEntry,
  type FileOperation,
  type SearchPage,
  type SearchQuery,
} from '#contract';
import type { RawAnswer } from '../../box-server/client.ts';
import type { UsableBox } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import { checkReachable } from '../life/fetch-policy.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

/** The box ends its work after this, or after what a fetch asks for; the gateway waits a little longer for it to say so. */
const operationMs = 600_000;
const fetchSeconds = 60;
const graceMs = 15_000;

/** Files of a box, streamed both ways; the gateway holds no more of them than a socket's buffer. */
export const createFiles = ({ lifecycle, activity }: { lifecycle: Lifecycle; activity: Activity }) => {
  const held = async (
    tenant: string,
    box: string,
    call: (server: UsableBox['server']) => Promise<RawAnswer>,
  ): Promise<RawAnswer> => {
    const { server } = await lifecycle.use(tenant, box);
    const release = activity.hold(box);
    try {
      const answer = await call(server);
      answer.body.once('close', release);
      return answer;
    } catch (error) {
      release();
      throw error;
    }
  };

  return {
    /** A file's bytes, or a folder's listing; `path` '' is the working folder. The caller reads the body. Answers a 416 too. */
    read: (
      tenant: string,
      box: string,
      method: 'GET' | 'HEAD',
      path: string,
      search: string,
      headers: Record<string, string>,
    ) => held(tenant, box, (server) => server.file(method, encodePath(path) + search, headers)),

    /** Writes a file whole or not at all. The answer's body is its entry. */
    write: (
      tenant: string,
      box: string,
      path: string,
      body: Readable,
      headers: Record<string, string>,
      signal?: AbortSignal,
    ) => held(tenant, box, (server) => server.file('PUT', encodePath(path), headers, body, signal)),

    /** Removes a file, or a folder with all that is in it. */
    async remove(tenant: string, box: string, path: string, headers: Record<string, string>): Promise<void> {
      const answer = await held(tenant, box, (server) => server.file('DELETE', encodePath(path), headers));
      answer.body.destroy();
    },

    /** Files by name, lines by content. */
    async search(tenant: string, box: string, query: SearchQuery, leave: AbortSignal): Promise<SearchPage> {
      const { server } = await lifecycle.use(tenant, box);
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
      return await server.search(`?${search}`, leave);
    },

    /** Makes, moves, copies, extracts or fetches. When `leave` fires, what has begun is given up and leaves nothing. */
    async operate(
      tenant: string,
      box: string,
      operation: FileOperation,
      leave: AbortSignal,
    ): Promise<{ entry: FileEntry; isNew: boolean }> {
      const { box: row, server } = await lifecycle.use(tenant, box);
      if (operation.op === 'fetch') checkReachable(operation.url, row.network, '/url');
      const ms = operation.op === 'fetch' ? (operation.timeoutSeconds ?? fetchSeconds) * 1000 : operationMs;
      const late = AbortSignal.timeout(ms + graceMs);
      const release = activity.hold(box);
      try {
        return await server.operateOnFiles(operation, AbortSignal.any([leave, late]));
      } catch (cause) {
        if (late.aborted) throw new CodeBoxError('timeout', 'The box did not finish in time.', { cause });
        throw cause;
      } finally {
        release();
      }
    },
  };
};

export type Files = ReturnType<typeof createFiles>;
