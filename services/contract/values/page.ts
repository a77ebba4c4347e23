import { z } from 'zod';
import { plainText } from './text.ts';

/** An integer in a query, where every value is text. */
export const queryInteger = () =>
  z.coerce.number({ error: ({ code }) => (code === 'invalid_type' ? 'must be a whole number' : undefined) }).int();

/** Query of a list: at most `limit` items, starting after the page whose `nextCursor` is `cursor`. */
export const pageQuerySchema = z.strictObject({
  limit: queryInteger().min(1).max(1000).default(100),
  cursor: plainText().max(1024).optional(),
});

export type PageQuery = z.infer<typeof pageQuerySchema>;

/** A page of a list; `nextCursor` is null on the last one. */
export interface Page<T> {
  items: T[];
  nextCursor: string | null;
}

/** The schema of a page of `item`, named for the OpenAPI document. */
export const pageSchema = <T extends z.ZodType>(id: string, item: T) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable() }).meta({ id });
