import { CodeBoxError } from '#contract';
import type { BindableLimits, Binding, Capabilities } from './driver.ts';

/** Throws `unavailable` for a change that the driver cannot make on a running instance. */
export const checkBinding = (
  { bind }: Pick<Capabilities, 'bind'>,
  { limits = {}, network, volumes = [] }: Binding,
): void => {
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  const fixed = given.map(([name]) => name).filter((name) => !bind.limits.includes(name as keyof BindableLimits));
  if (network !== undefined && !bind.networks.includes(network)) fixed.push('network');
  if (volumes.length > 0 && !bind.volumes) fixed.push('volumes');
  if (fixed.length === 0) return;
  throw new CodeBoxError('unavailable', `The ${fixed.join(' and ')} of a running box cannot be changed here.`);
};

/** The error for another network of an instance that was created without `takesNetwork`; nothing has changed then. */
export const networkIsFixed = (): CodeBoxError =>
  new CodeBoxError(
    'conflict',
    'This box was started without support for another network. Hibernate it, change its network, and use it again.',
  );
