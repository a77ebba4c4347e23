import { z } from 'zod';
import { CodeBoxError, hasCode, plainText, queryInteger } from '#contract';
import type { Files } from '../../boxes/reach/files.ts';
import { type Homes, toAbsolute, toBoxPath } from './homes.ts';
import type { Tools } from './tools.ts';

/** How long a search may take; it returns what it has found until then. */
const searchMs = 30_000;
const flag = z.enum(['true', 'false']).optional();

const querySchema = z.object({
  query: plainText().min(1).max(500).meta({ description: 'The text or the regular expression to search for.' }),
  path: plainText().max(4096).default('.').meta({ description: 'The folder or the file to search in.' }),
  regex: flag.meta({ description: 'false: `query` is literal text.' }),
  case_insensitive: flag.meta({ description: 'true: upper and lower case are the same.' }),
  include: plainText().min(1).max(1000).optional().meta({ description: 'A glob of the names of files, such as *.py.' }),
  match_per_line: flag.meta({ description: 'false: return only the files with matches.' }),
  max_results: queryInteger().min(1).max(500).default(50).meta({ description: 'The maximum number of matches.' }),
});

/** `grep_search`: lines of files that match. */
export const addGrepRoute = ({ add }: Tools, files: Files, homes: Homes): void =>
  add(
    {
      name: 'grep_search',
      method: 'get',
      path: '/openterminal/files/grep',
      scope: 'files',
      summary: 'Search the contents of files',
      description: 'Returns the lines of text files that match, with their files and line numbers.',
      query: querySchema,
    },
    async ({ c, tenant, query }) => {
      const path = toBoxPath(query.path);
      const ref = await (path === '' ? homes.lookUp(c, tenant) : homes.find(c, tenant));
      const leave = AbortSignal.timeout(2 * searchMs);
      const content = query.regex === 'false' ? query.query.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&') : query.query;
      const asked = {
        path,
        content,
        caseSensitive: query.case_insensitive === 'true' ? ('false' as const) : ('true' as const),
        ...(query.include !== undefined && { name: query.include }),
      };
      const matches = new Map<string, object>();
      const ends = performance.now() + searchMs;
      let cursor: string | undefined;
      let isMore = ref !== undefined;
      while (ref && isMore && matches.size < query.max_results && performance.now() < ends) {
        const page = await files.search(ref, { ...asked, limit: 1000, cursor }, leave).catch((cause: unknown) => {
          if (!hasCode(cause, 'invalid_request')) throw cause;
          throw new CodeBoxError('invalid_request', `Invalid regex: ${cause.message}`, { cause });
        });
        for (const { path: name, line, text } of page.items) {
          if (matches.size >= query.max_results) break;
          const file = toAbsolute(name);
          if (query.match_per_line === 'false') matches.set(file, { file });
          else matches.set(`${line} ${file}`, { file, line, content: text });
        }
        cursor = page.nextCursor ?? undefined;
        isMore = cursor !== undefined;
      }
      const truncated = isMore || matches.size >= query.max_results;
      return c.json({ query: query.query, path: toAbsolute(query.path), matches: [...matches.values()], truncated });
    },
  );
