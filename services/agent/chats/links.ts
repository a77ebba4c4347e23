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
  /** The one it was made with, unless that is the agent's own: it opens as long as that key does. */
  key: z.string().optional(),
  expires: z.number(),
});

export type LinkTarget = z.infer<typeof targetSchema>;

type KeyOfOwner = Pick<Owner, 'key'>;

const purpose = 'link';
const nothing = () => new CodeBoxError('not_found', 'There is nothing behind this link.');

/**
 * Addresses that need no key: whoever has one reads that one thing until it expires, or the key with which it was made
 * does. They are sealed, so that neither what they open nor with whose key can be read from them or changed.
 */
export const createLinks = (seal: Seal, seconds: number, now: () => number = Date.now) => {
  const sign = ({ key }: KeyOfOwner, name: string, target: Omit<LinkTarget, 'key' | 'expires'>) => {
    const expires = now() + seconds * 1000;
    const token = seal.close(purpose, JSON.stringify({ ...target, key, expires }));
    return { url: `/v1/files/${token}/${encodeURIComponent(name)}`, expiresAt: new Date(expires).toISOString() };
  };

  const inBox = (owner: KeyOfOwner, chat: string, path: string) =>
    sign(owner, path.split('/').at(-1) ?? path, { chat, path });

  return {
    /** Of a file in the box of a chat, read with the key of its owner. */
    path: inBox,

    /** A kept file with its address. */
    file(owner: KeyOfOwner, chat: string, { blob, ...file }: StoredFile) {
      if (blob === null) return { ...file, ...inBox(owner, chat, file.path) };
      return { ...file, ...sign(owner, file.name, { chat, blob, mime: file.mime }) };
    },

    /** A kept picture with its address, and that of its data. */
    image(owner: KeyOfOwner, chat: string, { blob, chartBlob, ...image }: StoredImage) {
      const chart = chartBlob && { chat, blob: chartBlob, mime: 'application/json' };
      const chartUrl = chart && sign(owner, `${image.name}.json`, chart).url;
      return { ...image, ...sign(owner, image.name, { chat, blob, mime: image.mime }), chartUrl };
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
