import { z } from 'zod';
import { pageQuerySchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';
import { boxPathSchema, encodedPathSchema } from './files.ts';

const pattern = () => plainText().min(1).max(1000);

/**
 * Query of a search: names that match a glob, lines that match a regular expression, or lines in files with such names.
 */
export const searchQuerySchema = pageQuerySchema
  .extend({
    path: z
      .union([z.literal(''), boxPathSchema])
      .optional()
      .meta({ description: 'Default: the working folder.' }),
    name: pattern()
      .optional()
      .meta({ description: 'A glob such as *.py or src/**/test_?.{js,ts}. Without a / it matches the name alone.' }),
    content: pattern().optional().meta({ description: 'A regular expression that matches within one line.' }),
    caseSensitive: z.enum(['true', 'false']).optional().meta({ description: 'true unless given.' }),
    cursor: plainText().max(16_384).optional(),
  })
  .refine((query) => query.name !== undefined || query.content !== undefined, {
    path: ['name'],
    message: 'is needed where there is no content',
  });

export type SearchQuery = z.infer<typeof searchQuerySchema>;

const searchMatchSchema = z
  .object({
    path: z.string().max(16_384),
    encodedPath: encodedPathSchema.optional(),
    type: z.enum(['file', 'directory', 'symlink', 'other']).optional(),
    line: z.int().min(1).optional(),
    column: z.int().min(1).optional().meta({ description: 'The position of the first match, in bytes, from 1.' }),
    text: z.string().max(2000).optional().meta({ description: 'The line, cut to 400 bytes.' }),
  })
  .meta({ id: 'SearchMatch' });

/** Matches in the order of their paths: an entry, or a line that contains a match. */
export const searchPageSchema = z
  .object({
    items: z.array(searchMatchSchema),
    nextCursor: z.string().max(16_384).nullable().meta({
      description: 'Set as well when the search ran out of time: a page may be short or empty without being the last.',
    }),
    complete: z.boolean().meta({ description: 'False when files over 256 MiB were skipped.' }),
  })
  .meta({ id: 'SearchPage' });

export type SearchPage = z.infer<typeof searchPageSchema>;
