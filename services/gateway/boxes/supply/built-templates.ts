import type { Capabilities, NetworkPolicy } from '../../drivers/driver.ts';
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

/**
 * Returns the network of a template's warm instances. Those of a tenant may run its code before anybody claims them, so that they get
 * their network by the claim, where the driver can change it.
 */
export const warmNetworkOf = (
  { archive, network }: Pick<Template, 'archive' | 'network'>,
  { networks, bind }: Pick<Capabilities, 'networks' | 'bind'>,
): NetworkPolicy => (archive && networks.includes('none') && bind.networks.includes(network) ? 'none' : network);
