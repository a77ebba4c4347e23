import { CodeBoxError } from '#contract';
import type { BindableLimits, Binding, Capabilities } from '../driver.ts';

/** Throws `unavailable` when a change asks for something that a running instance cannot get here. */
export const checkBinding = ({ bind }: Pick<Capabilities, 'bind'>, { limits = {}, network }: Binding): void => {
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  const fixed = given.map(([name]) => name).filter((name) => !bind.limits.includes(name as keyof BindableLimits));
  if (network !== undefined && !bind.networks.includes(network)) fixed.push('network');
  if (fixed.length === 0) return;
  throw new CodeBoxError('unavailable', `A running box cannot be given another ${fixed.join(' or ')} here.`);
};
