import { z } from 'zod';
import { pageSchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';
import { boxPathSchema, newPathSchema } from './files.ts';

/** A file name for a download. */
export const downloadNameSchema = plainText()
  .min(1)
  .max(255)
  .refine((name) => !/[/\p{Cc}]/u.test(name), 'must not contain / or control characters');

const maxSeconds = 7 * 86_400;

/** A request for a link: whoever has it may read, or write, this one file. */
export const createLinkSchema = z
  .strictObject({
    path: boxPathSchema,
    method: z.enum(['GET', 'PUT']).optional().meta({
      description: 'GET (default) to read the file, also by HEAD and with ranges; PUT to write it.',
    }),
    once: z.boolean().optional().meta({
      description: 'Valid for one download or one complete upload. Default false: any number until it expires.',
    }),
    expiresInSeconds: z.int().min(1).max(maxSeconds).optional().meta({ description: 'Default 3600, at most 7 days.' }),
    maxBytes: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().meta({
      description: 'For PUT: the largest file that may be written. Default 100 MiB.',
    }),
    download: downloadNameSchema.optional().meta({ description: 'For GET: the file name for the download.' }),
  })
  .superRefine(({ method = 'GET', path, maxBytes, download }, ctx) => {
    if (method === 'GET' && maxBytes !== undefined)
      ctx.addIssue({ code: 'custom', path: ['maxBytes'], message: 'is for method PUT' });
    if (method === 'PUT' && download !== undefined)
      ctx.addIssue({ code: 'custom', path: ['download'], message: 'is for method GET' });
    const fault = method === 'PUT' ? newPathSchema.safeParse(path).error?.issues[0] : undefined;
    if (fault) ctx.addIssue({ code: 'custom', path: ['path'], message: fault.message });
  })
  .meta({ id: 'CreateLink' });

export type CreateLink = z.infer<typeof createLinkSchema>;

export const linkSchema = z
  .object({
    id: z.string(),
    box: z.string(),
    path: z.string(),
    method: z.enum(['GET', 'PUT']),
    once: z.boolean(),
    maxBytes: z.int().nullable(),
    download: z.string().nullable(),
    createdAt: z.iso.datetime(),
    expiresAt: z.iso.datetime(),
    usedAt: z.iso.datetime().nullable().meta({ description: 'When a link with `once` was used.' }),
  })
  .meta({ id: 'Link' });

export type Link = z.infer<typeof linkSchema>;

export const createdLinkSchema = linkSchema
  .extend({
    url: z.string().meta({
      description: 'A path at this gateway, which needs no key. It is a secret, and only in this response.',
    }),
  })
  .meta({ id: 'CreatedLink' });

export type CreatedLink = z.infer<typeof createdLinkSchema>;

export const linkPageSchema = pageSchema('LinkPage', linkSchema);
