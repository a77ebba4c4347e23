import { createHash, randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { CodeBoxError, type CreateLink, type Page, type PageQuery } from '#contract';
import { boundedTo } from '../../../blobs/size-bound.ts';
import { newId } from '../../../postgres/id.ts';
import type { LinkRow, LinkStore } from '../../store/box/links.ts';
import type { Caller } from '../../store/tenants/keys.ts';
import type { BoxRef } from '../box-ref.ts';
import { checkLiving } from '../life/box-state.ts';
import type { Directory } from '../life/directory.ts';
import type { Files, Opened, ReadOptions, WriteOptions } from './files.ts';

export interface LinksOptions {
  links: LinkStore;
  directory: Pick<Directory, 'find'>;
  files: Pick<Files, 'open' | 'stat' | 'put'>;
}

const tokenPattern = /^lnk_[\w-]{43}$/;
const defaultSeconds = 3600;
const defaultBytes = 100 * 1024 * 1024;
const maxLinks = 1000;

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');
const refOf = ({ tenantId, boxId }: LinkRow): BoxRef => ({ tenant: tenantId, box: boxId });

/**
 * Links to files of boxes. Whoever has the token may read, or write, one file; a token names nothing else, so there is nothing to change in
 * it. It grants what its key may do: it ends with the key, with its box and by itself.
 */
export const createLinks = ({ links, directory, files }: LinksOptions) => {
  /** Throws `not_found` for a box that is not this tenant's. */
  const boxOf = (ref: BoxRef) => directory.find(ref);

  /** Returns a link for this method. Throws `gone` for one that was used or has expired. */
  const find = async (token: string, method: LinkRow['method']): Promise<LinkRow> => {
    const link = await links.find(hashOf(token));
    if (!link) throw ended('was revoked');
    if (link.isExpired) throw ended('has expired');
    if (link.usedAt) throw ended('was used, and is valid once');
    if (link.method !== method) throw new CodeBoxError('method_not_allowed', `This link is for ${link.method}.`);
    return link;
  };

  const useUp = async (link: LinkRow): Promise<void> => {
    if (link.once && !(await links.use(link.id))) throw ended('was used, and is valid once');
  };

  return {
    /** Creates a link to a file, which need not exist yet. The box is not woken. Throws `gone` when it has ended. */
    async create(caller: Caller, boxId: string, ask: CreateLink): Promise<{ link: LinkRow; token: string }> {
      checkLiving(await boxOf({ tenant: caller.tenantId, box: boxId }));
      const { path, method = 'GET', once = false, maxBytes = defaultBytes, download = null } = ask;
      const token = `lnk_${randomBytes(32).toString('base64url')}`;
      const row = {
        id: newId('link'),
        hash: hashOf(token),
        ...caller,
        boxId,
        path,
        method,
        once,
        maxBytes: method === 'PUT' ? maxBytes : null,
        download,
      };
      const link = await links.insert(row, ask.expiresInSeconds ?? defaultSeconds, maxLinks);
      if (!link)
        throw new CodeBoxError('too_many_requests', `The box has ${maxLinks} links. Revoke some, or let them expire.`);
      return { link, token };
    },

    async list(ref: BoxRef, query: PageQuery): Promise<Page<LinkRow>> {
      await boxOf(ref);
      return await links.list(ref.box, query);
    },

    async revoke(ref: BoxRef, id: string): Promise<void> {
      await boxOf(ref);
      if (!(await links.remove(ref.box, id))) throw new CodeBoxError('not_found', 'There is no such link.');
    },

    /** Resolves with the caller who created a link, whose key may have ended since; with undefined for no link. */
    async callerOf(token: string): Promise<Caller | undefined> {
      const link = tokenPattern.test(token) ? await links.find(hashOf(token)) : undefined;
      return link && { tenantId: link.tenantId, keyId: link.keyId };
    },

    /** Returns what GET would return, without its content; a link that is valid once stays so. */
    async stat(token: string, options: ReadOptions) {
      const link = await find(token, 'GET');
      const head = await files.stat(refOf(link), link.path, options);
      if (head.kind !== 'file') throw notAFile();
      return { link, found: head, body: undefined };
    },

    /** Opens the file, and uses up a link that is valid once as soon as there is content to send. */
    async open(token: string, options: ReadOptions) {
      const link = await find(token, 'GET');
      const found: Opened = await files.open(refOf(link), link.path, options);
      if (found.kind === 'folder') throw notAFile();
      try {
        if (!found.isUnchanged) await useUp(link);
      } catch (error) {
        found.body.destroy();
        throw error;
      }
      return { link, found, body: found.body };
    },

    /** Writes the file. Throws `too_large` for more than the link permits, and writes nothing then. */
    async put(token: string, body: Readable, options: WriteOptions) {
      const link = await find(token, 'PUT');
      const { maxBytes = null } = link;
      if (maxBytes !== null && (options.sizeBytes ?? 0) > maxBytes) throw tooLarge(maxBytes);
      await useUp(link);
      const bounded = maxBytes === null ? undefined : boundedTo(body, maxBytes, () => tooLarge(maxBytes));
      try {
        return await files.put(refOf(link), link.path, bounded ?? body, options);
      } catch (error) {
        const failure = bounded?.errored ?? error;
        const isRefused = failure instanceof CodeBoxError && !['unavailable', 'timeout'].includes(failure.code);
        // Nothing is written of a body that has not arrived whole. After any other failure the file may have been written.
        if (link.once && (isRefused || !body.readableEnded)) await links.release(link.id);
        throw failure;
      }
    },
  };
};

export type Links = ReturnType<typeof createLinks>;

const ended = (why: string) => new CodeBoxError('gone', `The link ${why}.`);

const notAFile = () => new CodeBoxError('not_found', 'There is no file at the path of this link.');

const tooLarge = (maxBytes: number) =>
  new CodeBoxError('too_large', `This link takes files of up to ${maxBytes} bytes.`);
