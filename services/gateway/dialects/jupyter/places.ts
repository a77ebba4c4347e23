import { posix } from 'node:path';
import type { Context } from 'hono';
import { CodeBoxError, type Context as Kernel, plainText } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import { type Env, noteBox } from '../../http/env.ts';

/** The name that stands for a fresh box per kernel. */
const fresh = 'new';
/** Ends the box of a kernel whose client has left without deleting it. */
const freshIdleSeconds = 600;
/** The metadata of the box of such a kernel, whose end is that of the box. */
const freshMark = { 'jupyter.kernel': fresh };
const boxId = /^box-[a-z2-7]{26}$/;
const nameSchema = plainText().min(1).max(240);

/** A kernel with the box that it runs in. */
export interface KernelPlace {
  ref: BoxRef;
  kernel: Kernel;
  /** Its id for clients: with a fresh box that of the box, otherwise its own. */
  id: string;
}

const noSuchKernel = (id: string) => new CodeBoxError('not_found', `Kernel does not exist: ${id}`);

type PlacesOptions = Pick<RouteParts, 'creation' | 'contexts' | 'directory' | 'endings'>;

/**
 * The boxes that `/jupyter/{name}` stands for: the box with that id, a fresh one for each kernel if the name is `new`, otherwise the reusable
 * box of the user `jupyter/<name>`, which the first request creates.
 */
export const createPlaces = ({ creation, contexts, directory, endings }: PlacesOptions) => {
  const noted = (c: Context<Env>, ref: BoxRef): BoxRef => {
    noteBox(c, ref.box);
    return ref;
  };
  const nameOf = (c: Context<Env>): string => checkInput(nameSchema, c.req.param('name'), '/path/name');
  const isFresh = (c: Context<Env>): boolean => nameOf(c) === fresh;

  /** Throws `not_found` for `new`, which has no box of its own. */
  const boxOf = async (c: Context<Env>, tenant: string): Promise<BoxRef> => {
    const name = nameOf(c);
    if (boxId.test(name)) return noted(c, { tenant, box: name });
    if (name === fresh) throw new CodeBoxError('not_found', 'With the name `new`, only kernels have boxes.');
    const { box } = await creation.create(tenant, { user: `jupyter/${name}`, reuse: true });
    return noted(c, refOf(box));
  };

  return {
    isFresh,
    boxOf,

    /** Finds the kernel of the request. Throws `not_found`. */
    async kernelOf(c: Context<Env>, tenant: string): Promise<KernelPlace> {
      const id = c.req.param('kernel') ?? '';
      if (!isFresh(c)) {
        const ref = await boxOf(c, tenant);
        const kernel = (await contexts.list(ref)).find((context) => context.id === id);
        if (!kernel) throw noSuchKernel(id);
        return { ref, kernel, id };
      }
      if (!boxId.test(id)) throw noSuchKernel(id);
      const ref = noted(c, { tenant, box: id });
      const { metadata } = await directory.find(ref);
      const isMarked = Object.entries(freshMark).every(([key, value]) => metadata[key] === value);
      const kernel = isMarked ? (await contexts.list(ref)).find((context) => !context.default) : undefined;
      if (!kernel) throw noSuchKernel(id);
      return { ref, kernel, id };
    },

    /** Starts a kernel in the box of the request, or in a fresh one. A folder that does not exist is ignored. */
    async startKernel(c: Context<Env>, tenant: string, language?: string, folder = ''): Promise<KernelPlace> {
      const cwd = posix.normalize(`/${folder}`).replace(/^\/+|\/+$/g, '');
      const ask = language === undefined ? {} : { language };
      if (isFresh(c)) {
        const request = { idleSeconds: freshIdleSeconds, metadata: freshMark };
        const ref = noted(c, refOf((await creation.create(tenant, request)).box));
        try {
          return { ref, kernel: await contexts.create(ref, ask), id: ref.box };
        } catch (error) {
          // Nobody learns the id of the box.
          await endings.delete(ref);
          throw error;
        }
      }
      const ref = await boxOf(c, tenant);
      const inFolder = cwd === '' ? undefined : contexts.create(ref, { ...ask, cwd });
      const kernel =
        (await inFolder?.catch((error: unknown) => {
          if (error instanceof CodeBoxError && ['invalid_request', 'not_found'].includes(error.code)) return undefined;
          throw error;
        })) ?? (await contexts.create(ref, ask));
      return { ref, kernel, id: kernel.id };
    },
  };
};

export type Places = ReturnType<typeof createPlaces>;
