import { z } from 'zod';
import { boxPathSchema, encodedPathSchema } from './files.ts';
import { pageQuerySchema } from './page.ts';
import { plainText } from './text.ts';

const pattern = () => plainText().min(1).max(1000);

/** Query of a search: names by a glob, lines by a regular expression, or lines in files of such names. */
export const searchQuerySchema = pageQuerySchema
  .extend({
    path: z
      .union([z.literal(''), boxPathSchema])
      .optional()
      .meta({ description: 'The working folder unless given.' }),
    name: pattern()
      .optional()
      .meta({ description: 'A glob, as *.py or src/**/test_?.{js,ts}. Without a / it is for the name alone.' }),
    content: pattern().optional().meta({ description: 'A regular expression for one line.' }),
    caseSensitive: z.enum(['true', 'false']).optional().meta({ description: 'true unless given.' }),
    cursor: plainText().max(16_384).optional(),
  })
  .refine((query) => query.name !== undefined || query.content !== undefined, {
    path: ['name'],
    message: 'is needed where there is no content',
  });

export type SearchQuery = z.infer<typeof searchQuerySchema>;

/** What was found, in the order of the paths: an entry, or a line with a match in it. */
export const searchPageSchema = z
  .object({
    items: z.array(
      z.object({
        path: z.string().max(16_384),
        encodedPath: encodedPathSchema.optional(),
        type: z.enum(['file', 'directory', 'symlink', 'other']).optional(),
        line: z.int().min(1).optional(),
        column: z.int().min(1).optional().meta({ description: 'Of the first match, in bytes, from 1.' }),
        text: z.string().max(2000).optional().meta({ description: 'The line, at most 400 bytes of it.' }),
      }),
    ),
    nextCursor: z.string().max(16_384).nullable().meta({
      description: 'Also when the search took long: a page may be short, or empty, and yet not be the last.',
    }),
    complete: z.boolean().meta({ description: 'False when files over 256 MiB were not looked into.' }),
  })
  .meta({ id: 'SearchPage' });

export type SearchPage = z.infer<typeof searchPageSchema>;
