import { z } from 'zod';

/** The schema of a page of a list, under this name in the documentation. */
export const openAiPageSchema = <Item extends z.ZodType>(id: string, item: Item) =>
  z
    .object({
      object: z.literal('list'),
      data: z.array(item),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    })
    .meta({ id });

/** A page of a list, whose last id its client passes as `after` to get the next one. */
export const openAiPage = <Item extends { id: string }>(data: Item[], hasMore: boolean) => ({
  object: 'list' as const,
  data,
  first_id: data[0]?.id ?? null,
  last_id: data.at(-1)?.id ?? null,
  has_more: hasMore,
});
