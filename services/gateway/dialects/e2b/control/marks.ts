import { defaultTemplate } from '#contract';
import type { BoxRow } from '../../../boxes/life/directory.ts';

/** Names of E2B's own templates, which stand for the default template. */
const ownTemplates = new Set(['base', 'code-interpreter', 'code-interpreter-v1']);

/** Entries of the metadata of a box with what a sandbox has and a box has not. */
const prefix = 'e2b.';
/** By which of E2B's names its template was asked for. */
const askedKey = `${prefix}template`;
/** The key whose requests those without a token count as. */
const openKey = `${prefix}open`;
const kindKey = `${prefix}kind`;
const nameKey = `${prefix}name`;
const sourceKey = `${prefix}source`;

type Metadata = Record<string, string>;

/** Maps a template name of E2B's clients to ours. */
export const toTemplate = (name: string): string => (ownTemplates.has(name) ? defaultTemplate : name);

/** Returns the metadata that keeps the name by which a template was asked for. */
export const asked = (name: string): Metadata => (ownTemplates.has(name) ? { [askedKey]: name } : {});

/** Returns the name by which the template of a sandbox was asked for, and the metadata that its creator gave it. */
export const readAsked = ({ template, metadata }: Pick<BoxRow, 'template' | 'metadata'>) => {
  const { [askedKey]: name } = metadata;
  return {
    template: name !== undefined && ownTemplates.has(name) ? name : template,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([key]) => !key.startsWith(prefix))),
  };
};

/** Returns the metadata of a sandbox whose ports need no token: requests without one count as those of this key. */
export const openFor = (keyId: string): Metadata => ({ [openKey]: keyId });

/** Returns the key as whose requests those without a token count; undefined where a token is needed. */
export const readOpen = (metadata: Metadata): string | undefined => metadata[openKey];

/** The metadata of all boxes that are snapshots. */
export const ofSnapshots: Metadata = { [kindKey]: 'snapshot' };

/** Returns the metadata of the snapshots of a sandbox, or of those with a name. */
export const ofSnapshot = ({ source, name }: { source?: string | undefined; name?: string | undefined }): Metadata => ({
  ...ofSnapshots,
  ...(source !== undefined && { [sourceKey]: source }),
  ...(name !== undefined && { [nameKey]: name }),
});

export const isSnapshot = ({ metadata }: Pick<BoxRow, 'metadata'>): boolean => metadata[kindKey] === 'snapshot';

/** Returns the names of a snapshot. */
export const namesOf = ({ metadata }: Pick<BoxRow, 'metadata'>): string[] => {
  const { [nameKey]: name } = metadata;
  return name === undefined ? [] : [name];
};
