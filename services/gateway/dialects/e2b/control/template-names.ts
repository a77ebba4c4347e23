import { defaultTemplate } from '#contract';
import type { BoxRow } from '../../../boxes/life/directory.ts';

/** Names of E2B's own templates, which stand for the default template. */
const ownTemplates = new Set(['base', 'code-interpreter', 'code-interpreter-v1']);
/** The key of the metadata of a box that keeps by which of these names its template was asked for. */
const askedKey = 'e2b.template';

/** Maps a template name of E2B's clients to ours. */
export const toTemplate = (name: string): string => (ownTemplates.has(name) ? defaultTemplate : name);

/** Returns the metadata that keeps the name by which a template was asked for. */
export const asked = (name: string): Record<string, string> => (ownTemplates.has(name) ? { [askedKey]: name } : {});

/** Returns the name by which the template of a sandbox was asked for, and the metadata that its creator gave it. */
export const readAsked = ({ template, metadata }: Pick<BoxRow, 'template' | 'metadata'>) => {
  const { [askedKey]: name, ...rest } = metadata;
  return { template: name !== undefined && ownTemplates.has(name) ? name : template, metadata: rest };
};
