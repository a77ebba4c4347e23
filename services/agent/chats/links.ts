import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { StoredFile, StoredImage } from '../store/stored.ts';
import type { Owner } from './owner.ts';
import type { Seal } from './seal.ts';

/** What a link opens: a file of the box of a chat, or a copy in the blob store. */
const targetSchema = z.object({
  chat: z.string(),
  path: z.string().optional(),
  blob: z.string().optional(),
  mime: z.string().optional(),
  /** By which the gateway is asked, unless that is the agent's own. */
  key: z.string().optional(),
  expires: z.number(),
});

export type LinkTarget = z.infer<typeof targetSchema>;

const purpose = 'link';
const nothing = () => new CodeBoxError('not_found', 'There is nothing behind this link.');

/**
 * Addresses that need no key: whoever has one reads that one thing until it expires. They are sealed, so that neither what they open nor
 * with whose key can be read from them or changed.
 */
export const createLinks = (seal: Seal, seconds: number, now: () => number = Date.now) => {
  const sign = (name: string, target: Omit<LinkTarget, 'expires'>) => {
    const expires = now() + seconds * 1000;
    const token = seal.close(purpose, JSON.stringify({ ...target, expires }));
    return { url: `/v1/files/${token}/${encodeURIComponent(name)}`, expiresAt: new Date(expires).toISOString() };
  };
  const blob = (chat: string, name: string, blobName: string, mime: string) =>
    sign(name, { chat, blob: blobName, mime });

  const inBox = ({ key }: Pick<Owner, 'key'>, chat: string, path: string) =>
    sign(path.split('/').at(-1) ?? path, { chat, path, ...(key !== undefined && { key }) });

  return {
    /** Of a file in the box of a chat, read with the key of its owner. */
    path: inBox,

    /** A kept file with its address. */
    file(owner: Pick<Owner, 'key'>, chat: string, { blob: copy, ...file }: StoredFile) {
      return { ...file, ...(copy === null ? inBox(owner, chat, file.path) : blob(chat, file.name, copy, file.mime)) };
    },

    /** A kept picture with its address, and that of its data. */
    image(chat: string, { blob: picture, chartBlob, ...image }: StoredImage) {
      const chartUrl = chartBlob && blob(chat, `${image.name}.json`, chartBlob, 'application/json').url;
      return { ...image, ...blob(chat, image.name, picture, image.mime), chartUrl };
    },

    /** What the token of a link opens; throws `not_found` for one that was not made here, `gone` for one that has expired. */
    open(token: string): LinkTarget {
      const text = seal.open(purpose, token);
      if (text === undefined) throw nothing();
      const target = targetSchema.parse(JSON.parse(text));
      if (target.expires <= now()) throw new CodeBoxError('gone', 'The link has expired: ask for a new one.');
      return target;
    },
  };
};

export type Links = ReturnType<typeof createLinks>;
