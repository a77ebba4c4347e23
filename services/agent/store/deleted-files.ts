import { type SQL, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { toPlainJson } from './plain-json.ts';

/** Files that were deleted from the box of a chat: these paths, a path and everything below it, or all files. */
export type DeletedFiles = { paths: readonly string[] } | { below: string } | 'all';

const isAmong = (deleted: DeletedFiles): SQL => {
  if (deleted === 'all') return sql`true`;
  if ('paths' in deleted) return sql`${JSON.stringify(toPlainJson(deleted.paths))}::jsonb ? (file ->> 'path')`;
  return sql`(file ->> 'path' = ${deleted.below} or starts_with(file ->> 'path', ${`${deleted.below}/`}))`;
};

/**
 * Marks these files as gone in the messages of a chat so far. Kept copies stay available; a running answer is updated
 * by the agent that generates it.
 */
export const markDeleted = async (
  db: Pick<Database, 'execute'>,
  chat: string,
  deleted: DeletedFiles,
): Promise<void> => {
  const isMeant = sql`file ->> 'blob' is null and not file ? 'isGone' and ${isAmong(deleted)}`;
  const marked = (files: SQL) => sql`(
    select coalesce(jsonb_agg(case when ${isMeant} then file || '{"isGone": true}' else file end order by nth), '[]')
    from jsonb_array_elements(${files}) with ordinality as entry (file, nth))`;
  await db.execute(sql`
    update agent.messages set
      files = ${marked(sql`files`)},
      parts = (
        select coalesce(jsonb_agg(
          case when part ->> 'type' = 'code' then jsonb_set(part, '{files}', ${marked(sql`part -> 'files'`)}) else part end
          order by place), '[]')
        from jsonb_array_elements(parts) with ordinality as made (part, place))
    where chat_id = ${chat} and status <> 'running'
      and exists (select from jsonb_array_elements(files) as entry (file) where ${isMeant})`);
};
