import { CodeBoxError } from '#contract';
import type { Caller } from '../../http/admission/admission.ts';
import { readOpen } from './control/marks.ts';
import type { SignaturesOptions } from './signatures.ts';

export interface OpenPortsOptions extends Pick<SignaturesOptions, 'findMakers'> {
  /** Whether there was a box with this id. */
  hasEnded: (box: string) => Promise<boolean>;
}

/** How long it is remembered whether a sandbox needs a token, and of how many. */
const knownMs = 5000;
const maxKnown = 1000;

/** Finds as whom requests without a token reach the ports of sandboxes that were created with `allowPublicTraffic: true`. */
export const createOpenPorts = ({ findMakers, hasEnded }: OpenPortsOptions) => {
  const known = new Map<string, { opener: Caller | (() => CodeBoxError); until: number }>();

  const look = async (box: string): Promise<Caller | undefined> => {
    const makers = await findMakers(box);
    if (makers.length === 0 && !(await hasEnded(box))) return undefined;
    const opener =
      makers.length === 0 ? ended : (makers.find(({ keyId, metadata }) => readOpen(metadata) === keyId) ?? closed);
    if (known.size >= maxKnown) known.clear();
    known.set(box, { opener, until: performance.now() + knownMs });
    return orThrow(opener);
  };

  return {
    /**
     * Returns the caller; undefined for a box that does not exist. Throws `unauthorized` for a sandbox that needs a token, or whose key has
     * been revoked, and `gone` for one that has ended, which pages in open tabs go on to ask for.
     */
    async openerOf(box: string): Promise<Caller | undefined> {
      const earlier = known.get(box);
      if (!earlier || earlier.until <= performance.now()) return await look(box);
      return orThrow(earlier.opener);
    },
  };
};

export type OpenPorts = ReturnType<typeof createOpenPorts>;

const orThrow = (opener: Caller | (() => CodeBoxError)): Caller => {
  if (typeof opener === 'function') throw opener();
  return opener;
};
const ended = () => new CodeBoxError('gone', 'The sandbox has ended.');
const closed = () => new CodeBoxError('unauthorized', 'The ports of this sandbox need its traffic access token.');
