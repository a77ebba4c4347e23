import { CodeBoxError } from '#contract';

/** Throws `internal` unless `id` matches `[a-z0-9-]{1,40}`: it becomes part of paths, names and labels. */
export const checkInstanceId = (id: string): void => {
  if (!/^[a-z0-9][a-z0-9-]{0,39}$/.test(id)) throw new CodeBoxError('internal', 'The id of an instance is malformed.');
};
