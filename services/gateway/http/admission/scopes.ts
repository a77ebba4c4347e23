import type { Context } from 'hono';
import { CodeBoxError, type KeyScope } from '#contract';
import type { Env } from '../env.ts';

/** What a key needs to read at these paths, and to do anything else there; null for any key. The first one that fits counts. */
const rules: { path: RegExp; read: KeyScope | null; write: KeyScope | null }[] = [
  { path: /^\/v1\/caller$/, read: null, write: null },
  { path: /^\/v1\/usage$/, read: 'usage', write: 'usage' },
  { path: /^\/v1\/run$/, read: 'run', write: 'run' },
  { path: /^\/v1\/templates(\/|$)/, read: 'boxes:read', write: 'boxes:write' },
  { path: /^\/v1\/boxes\/\{box\}\/(ws|terminal|tickets|ports)(\/|$)/, read: 'run', write: 'run' },
  { path: /^\/v1\/boxes\/\{box\}\/files([/:]|$)/, read: 'files', write: 'files' },
  {
    path: /^\/v1\/boxes\/\{box\}\/(executions|commands|contexts|packages|terminals)(\/|$)/,
    read: 'boxes:read',
    write: 'run',
  },
  { path: /^\/v1\/boxes(\/\{box\}(\/\w+)?)?$/, read: 'boxes:read', write: 'boxes:write' },
];

/** The scope that an endpoint needs; null where any key will do. Throws for a path that nobody has decided on, so that none is open by mistake. */
export const scopeOf = (method: string, path: string): KeyScope | null => {
  const rule = rules.find((candidate) => candidate.path.test(path));
  if (!rule) throw new Error(`No scope is known for ${path}: scopes.ts decides on it.`);
  return method === 'get' || method === 'head' ? rule.read : rule.write;
};

/** Throws `forbidden` when the key of the request does not have this scope. */
export const requireScope = (c: Context<Env>, scope: KeyScope): void => {
  const scopes = c.get('scopes');
  if (scopes && !scopes.includes(scope)) throw new CodeBoxError('forbidden', `This key lacks the scope ${scope}.`);
};
