import { CodeBoxError } from '#contract';
import type { Caller } from '../../http/admission/admission.ts';
import { readOpen } from './control/marks.ts';
import type { SignaturesOptions } from './signatures.ts';

/** How long it is remembered whether a sandbox needs a token, and of how many. */
const knownMs = 5000;
const maxKnown = 1000;

/** Finds as whom requests without a token reach the ports of sandboxes that were created with `allowPublicTraffic: true`. */
export const createOpenPorts = ({ findMakers }: Pick<SignaturesOptions, 'findMakers'>) => {
  const known = new Map<string, { opener: Caller | undefined; until: number }>();

  const look = async (box: string): Promise<Caller | undefined> => {
    const makers = await findMakers(box);
    if (makers.length === 0) return undefined;
    const opener = makers.find(({ keyId, metadata }) => readOpen(metadata) === keyId);
    if (known.size >= maxKnown) known.clear();
    known.set(box, { opener, until: performance.now() + knownMs });
    if (!opener) throw closed();
    return opener;
  };

  return {
    /**
     * Returns the caller; undefined for a box that does not exist. Throws `unauthorized` for a sandbox that needs a token, or whose key has
     * been revoked.
     */
    async openerOf(box: string): Promise<Caller | undefined> {
      const earlier = known.get(box);
      if (!earlier || earlier.until <= performance.now()) return await look(box);
      if (!earlier.opener) throw closed();
      return earlier.opener;
    },
  };
};

export type OpenPorts = ReturnType<typeof createOpenPorts>;

const closed = () => new CodeBoxError('unauthorized', 'The ports of this sandbox need its traffic access token.');
