import type { ReadyVersion } from '../../store/templates/templates.ts';
import type { Template } from './templates.ts';

/** Returns the template that boxes of a built version are created from; undefined when the configured one below it is gone. */
export const toTemplate = (
  templates: ReadonlyMap<string, Template>,
  { templateId, name, number, settings, box, blob }: ReadyVersion,
): Template | undefined => {
  const { base: baseName, ...own } = settings;
  const base = templates.get(baseName);
  return base && { ...base, ...own, id: templateId, name, base: baseName, version: number, archive: { box, blob } };
};
