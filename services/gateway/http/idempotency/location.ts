import type { Reference } from '../../store/reference.ts';

/** Returns the path where a resource can be read. */
export const locationOf = (reference: Reference): string => {
  const { kind, id } = reference;
  if (kind === 'box') return `/v1/boxes/${id}`;
  if ('box' in reference) return `/v1/boxes/${reference.box}/${kind}s/${id}`;
  return `/v1/admin/${kind}s/${id}`;
};
