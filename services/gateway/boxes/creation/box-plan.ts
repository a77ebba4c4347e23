import type { CreateBox } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Capabilities } from '../../drivers/driver.ts';
import type { NewBox } from '../../store/supply/allocation.ts';
import { requireLimits, requireNetwork, requireOnIdle } from '../life/capabilities.ts';
import { resolveLimits, type Template } from '../supply/templates.ts';
import { checkInlineFiles } from './inline-files.ts';

/**
 * Plans a new box from a request and its template, but for its volumes. Throws `invalid_request` for what the deployment or the template does
 * not allow.
 */
export const planBox = (
  tenantId: string,
  ask: CreateBox,
  template: Template,
  capabilities: Capabilities,
): Omit<NewBox, 'volumes'> => {
  const network = ask.network ?? template.network;
  requireNetwork(capabilities, network);
  requireLimits(capabilities, ask.limits, template.limits);
  requireOnIdle(capabilities, ask.onIdle);
  checkInlineFiles(ask.files ?? [], network);
  return {
    id: newId('box'),
    tenantId,
    userId: ask.user ?? null,
    name: ask.name ?? null,
    reusable: ask.reuse ?? false,
    template: template.name,
    base: template.base ?? null,
    metadata: ask.metadata ?? {},
    limits: resolveLimits(template, ask.limits),
    network,
    idleSeconds: ask.idleSeconds ?? template.idleSeconds,
    maxLifetimeSeconds: ask.maxLifetimeSeconds ?? template.maxLifetimeSeconds,
    // Its user comes back by its name.
    onIdle: ask.onIdle ?? (ask.name === undefined ? 'delete' : 'hibernate'),
  };
};
