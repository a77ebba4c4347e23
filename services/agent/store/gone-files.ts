import { type SQL, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { toPlainJson } from './plain-json.ts';

/** Files that are in the box of a chat no more: these, one or all in a folder, or all there were. */
export type Gone = { paths: readonly string[] } | { below: string } | 'all';

const isAmong = (gone: Gone): SQL => {
  if (gone === 'all') return sql`true`;
  if ('paths' in gone) return sql`${JSON.stringify(toPlainJson(gone.paths))}::jsonb ? (file ->> 'path')`;
  return sql`(file ->> 'path' = ${gone.below} or starts_with(file ->> 'path', ${`${gone.below}/`}))`;
};

/**
 * Marks what the messages of a chat have told of these files until now. Kept copies are there all the same; an answer in the making
 * is left to who makes it.
 */
export const markGone = async (db: Pick<Database, 'execute'>, chat: string, gone: Gone): Promise<void> => {
  const isMeant = sql`file ->> 'blob' is null and not file ? 'isGone' and ${isAmong(gone)}`;
  const marked = (files: SQL) => sql`(
    select coalesce(jsonb_agg(case when ${isMeant} then file || '{"isGone": true}' else file end order by nth), '[]')
    from jsonb_array_elements(${files}) with ordinality as told (file, nth))`;
  await db.execute(sql`
    update agent.messages set
      files = ${marked(sql`files`)},
      parts = (
        select coalesce(jsonb_agg(
          case when part ->> 'type' = 'code' then jsonb_set(part, '{files}', ${marked(sql`part -> 'files'`)}) else part end
          order by place), '[]')
        from jsonb_array_elements(parts) with ordinality as made (part, place))
    where chat_id = ${chat} and status <> 'running'
      and exists (select from jsonb_array_elements(files) as told (file) where ${isMeant})`);
};
