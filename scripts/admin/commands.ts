import type { Client, NewApiKey } from '#contract';
import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import {
  type Options,
  oneOf,
  only,
  quotaOptionNames,
  quotasOf,
  scopesOf,
  secondsOf,
  wholeNumber,
} from './arguments.ts';
import { Misuse } from './usage.ts';

type Admin = Client['admin'];

/** The output of a command: one object, the first items of a list with the columns of their table, or a message. */
export type Shown = { one: object } | { many: object[]; columns: string[] } | { message: string };

type Command = (admin: Admin, options: Options, subject: string) => Promise<Shown>;

const defaultLines = 100;

const take = async <T extends object>(items: AsyncIterable<T>, options: Options): Promise<T[]> => {
  const limit = options.limit === undefined ? defaultLines : wholeNumber(options.limit, 'limit');
  const taken: T[] = [];
  if (limit === 0) return taken;
  for await (const item of items) if (taken.push(item) >= limit) break;
  return taken;
};

const required = (value: string | undefined, option: string): string => {
  if (value === undefined) throw new Misuse(`--${option} is missing.`);
  return value;
};

const tenants: Record<string, Command> = {
  async list(admin, options) {
    const { state } = only(options, 'state');
    const known = oneOf(state, 'state', ['active', 'suspended', 'deleted']);
    const many = await take(admin.tenants.list(known === undefined ? {} : { state: known }), options);
    return { many, columns: ['id', 'name', 'state', 'quotas', 'createdAt'] };
  },
  async create(admin, options, name) {
    only(options, ...quotaOptionNames);
    return { one: await admin.tenants.create({ name, quotas: quotasOf(options) }) };
  },
  async show(admin, options, tenant) {
    only(options);
    return { one: await admin.tenants.read(tenant) };
  },
  async update(admin, options, tenant) {
    const { name } = only(options, 'name', ...quotaOptionNames);
    const change = { ...(name !== undefined && { name }), quotas: quotasOf(options) };
    if (name === undefined && Object.keys(change.quotas).length === 0)
      throw new Misuse('Pass --name or a quota to change.');
    return { one: await admin.tenants.update(tenant, change) };
  },
  async suspend(admin, options, tenant) {
    only(options);
    return { one: await admin.tenants.update(tenant, { state: 'suspended' }) };
  },
  async resume(admin, options, tenant) {
    only(options);
    return { one: await admin.tenants.update(tenant, { state: 'active' }) };
  },
  async delete(admin, options, tenant) {
    only(options);
    await admin.tenants.delete(tenant);
    return { message: `The tenant ${tenant} is deleted. Its keys are revoked, and its boxes are being ended.` };
  },
  async usage(admin, options, tenant) {
    const { from, to, user } = only(options, 'from', 'to', 'user');
    const query = { ...(from && { from }), ...(to && { to }), ...(user && { user }) };
    const columns = ['day', 'user', 'boxes', 'boxSeconds', 'executions', 'wallMs', 'cpuMs', 'peakMemoryBytes'];
    return { many: await take(admin.tenants.usage(tenant, query), options), columns };
  },
};

/** Adds the form of a new key that clients of E2B take. */
const inEveryForm = (made: NewApiKey) => ({ ...made, e2bKey: toE2bKey(made.key) });

const keys: Record<string, Command> = {
  async list(admin, options) {
    const { tenant } = only(options, 'tenant');
    const many = await take(admin.keys.list(tenant === undefined ? {} : { tenant }), options);
    return { many, columns: ['id', 'tenant', 'name', 'state', 'scopes', 'expiresAt'] };
  },
  async create(admin, options) {
    const { tenant, name, scopes, expires } = only(options, 'tenant', 'name', 'scopes', 'expires');
    const request = { tenant: required(tenant, 'tenant'), name: required(name, 'name') };
    const [chosen, expiresInSeconds] = [scopesOf(scopes), secondsOf(expires, 'expires')];
    const more = { ...(chosen && { scopes: chosen }), ...(expiresInSeconds !== undefined && { expiresInSeconds }) };
    return { one: inEveryForm(await admin.keys.create({ ...request, ...more })) };
  },
  async show(admin, options, key) {
    only(options);
    return { one: await admin.keys.read(key) };
  },
  async rotate(admin, options, key) {
    const { overlap, expires } = only(options, 'overlap', 'expires');
    const [overlapSeconds, expiresInSeconds] = [secondsOf(overlap, 'overlap'), secondsOf(expires, 'expires')];
    const request = {
      ...(overlapSeconds !== undefined && { overlapSeconds }),
      ...(expiresInSeconds !== undefined && { expiresInSeconds }),
    };
    return { one: inEveryForm(await admin.keys.rotate(key, request)) };
  },
  async revoke(admin, options, key) {
    only(options);
    await admin.keys.revoke(key);
    return { message: `The key ${key} is revoked.` };
  },
};

const audit: Command = async (admin, options) => {
  const { tenant } = only(options, 'tenant');
  const many = await take(admin.audit(tenant === undefined ? {} : { tenant }), options);
  return { many, columns: ['at', 'actor', 'action', 'tenant', 'target', 'details'] };
};

/** Commands without a name or id as their argument. */
const withoutSubject = new Set(['tenants list', 'keys list', 'keys create', 'audit']);

const groups: Record<string, Record<string, Command> | Command> = { tenants, keys, audit };

/** Finds the command that `positionals` name and binds its arguments. Throws `Misuse` for an unknown command. */
export const commandOf = (positionals: string[], options: Options): ((admin: Admin) => Promise<Shown>) => {
  const [group = '', ...rest] = positionals;
  const found = Object.hasOwn(groups, group) ? groups[group] : undefined;
  const isGroup = typeof found === 'object';
  const verb = isGroup ? (rest.shift() ?? '') : '';
  const command = isGroup && Object.hasOwn(found, verb) ? found[verb] : found;
  const name = isGroup ? `${group} ${verb}` : group;
  if (typeof command !== 'function') throw new Misuse(`There is no command "${positionals.join(' ')}".`);
  const expected = withoutSubject.has(name) ? 0 : 1;
  if (rest.length !== expected)
    throw new Misuse(expected === 0 ? `"${name}" takes only options.` : `"${name}" takes one name or id.`);
  return (admin) => command(admin, options, rest[0] ?? '');
};
