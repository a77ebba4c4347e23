import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { Vault } from '../../../vault/vault.ts';
import type { StoredFile, StoredImage } from '../../store/stored.ts';
import type { Owner } from '../owner.ts';

/** The target of a link: a file of a chat's box, or a copy in the blob store. */
const targetSchema = z.object({
  chat: z.string(),
  path: z.string().optional(),
  blob: z.string().optional(),
  mime: z.string().optional(),
  /** The key that the link was made with, unless it is the agent's own: the link works as long as that key does. */
  key: z.string().optional(),
  expires: z.number(),
});

export type LinkTarget = z.infer<typeof targetSchema>;

type KeyOfOwner = Pick<Owner, 'key'>;

const purpose = 'link';
const nothing = () => new CodeBoxError('not_found', 'The link is invalid.');

/**
 * URLs that need no key: anyone who has one can read its target until the URL or the key that it was made with expires.
 * They are sealed, so their target and key can be neither read nor changed.
 */
export const createLinks = (seal: Vault, seconds: number, now: () => number = Date.now) => {
  const sign = ({ key }: KeyOfOwner, name: string, target: Omit<LinkTarget, 'key' | 'expires'>) => {
    const expires = now() + seconds * 1000;
    const token = seal.close(purpose, JSON.stringify({ ...target, key, expires }));
    // Names of files are bytes, and not always UTF-8.
    const plainName = encodeURIComponent(name.toWellFormed());
    return { url: `/v1/files/${token}/${plainName}`, expiresAt: new Date(expires).toISOString() };
  };

  const inBox = (owner: KeyOfOwner, chat: string, path: string) =>
    sign(owner, path.split('/').at(-1) ?? path, { chat, path });

  return {
    /** A link to a file in the box of a chat, which is read with its owner's key. */
    path: inBox,

    /** A kept file with its link. */
    file(owner: KeyOfOwner, chat: string, { blob, ...file }: StoredFile) {
      if (blob === null) return { ...file, ...inBox(owner, chat, file.path) };
      return { ...file, ...sign(owner, file.name, { chat, blob, mime: file.mime }) };
    },

    /** A kept picture with its link, and the link of its data. */
    image(owner: KeyOfOwner, chat: string, { blob, chartBlob, ...image }: StoredImage) {
      const chart = chartBlob && { chat, blob: chartBlob, mime: 'application/json' };
      const chartUrl = chart && sign(owner, `${image.name}.json`, chart).url;
      return { ...image, ...sign(owner, image.name, { chat, blob, mime: image.mime }), chartUrl };
    },

    /**
     * Returns the target of a link's token; throws `not_found` for a token that was not made here, `gone` for an
     * expired one.
     */
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
