import type { Client } from '#contract';
import { type Given, oneOf, only, quotaOptionNames, quotasOf, scopesOf, secondsOf, wholeNumber } from './arguments.ts';
import { Misuse } from './usage.ts';

type Admin = Client['admin'];

/** What a command has to show: one thing, or the first lines of a list, of which these are the columns of a table. */
export type Shown = { one: object } | { many: object[]; columns: string[] } | { said: string };

type Command = (admin: Admin, given: Given, subject: string) => Promise<Shown>;

const defaultLines = 100;

const take = async <T extends object>(items: AsyncIterable<T>, given: Given): Promise<T[]> => {
  const most = given.limit === undefined ? defaultLines : wholeNumber(given.limit, 'limit');
  const taken: T[] = [];
  if (most === 0) return taken;
  for await (const item of items) if (taken.push(item) >= most) break;
  return taken;
};

const needed = (value: string | undefined, option: string): string => {
  if (value === undefined) throw new Misuse(`--${option} is missing.`);
  return value;
};

const tenants: Record<string, Command> = {
  async list(admin, given) {
    const { state } = only(given, 'state');
    const known = oneOf(state, 'state', ['active', 'suspended', 'deleted']);
    const many = await take(admin.tenants.list(known === undefined ? {} : { state: known }), given);
    return { many, columns: ['id', 'name', 'state', 'quotas', 'createdAt'] };
  },
  async create(admin, given, name) {
    only(given, ...quotaOptionNames);
    return { one: await admin.tenants.create({ name, quotas: quotasOf(given) }) };
  },
  async show(admin, given, tenant) {
    only(given);
    return { one: await admin.tenants.read(tenant) };
  },
  async update(admin, given, tenant) {
    const { name } = only(given, 'name', ...quotaOptionNames);
    const change = { ...(name !== undefined && { name }), quotas: quotasOf(given) };
    if (name === undefined && Object.keys(change.quotas).length === 0) throw new Misuse('Nothing is to be changed.');
    return { one: await admin.tenants.update(tenant, change) };
  },
  async suspend(admin, given, tenant) {
    only(given);
    return { one: await admin.tenants.update(tenant, { state: 'suspended' }) };
  },
  async resume(admin, given, tenant) {
    only(given);
    return { one: await admin.tenants.update(tenant, { state: 'active' }) };
  },
  async delete(admin, given, tenant) {
    only(given);
    await admin.tenants.delete(tenant);
    return { said: `The tenant ${tenant} is deleted: its keys are revoked, its boxes are being ended.` };
  },
  async usage(admin, given, tenant) {
    const { from, to, user } = only(given, 'from', 'to', 'user');
    const query = { ...(from && { from }), ...(to && { to }), ...(user && { user }) };
    const columns = ['day', 'user', 'boxes', 'boxSeconds', 'executions', 'wallMs', 'cpuMs', 'peakMemoryBytes'];
    return { many: await take(admin.tenants.usage(tenant, query), given), columns };
  },
};

const keys: Record<string, Command> = {
  async list(admin, given) {
    const { tenant } = only(given, 'tenant');
    const many = await take(admin.keys.list(tenant === undefined ? {} : { tenant }), given);
    return { many, columns: ['id', 'tenant', 'name', 'state', 'scopes', 'expiresAt'] };
  },
  async create(admin, given) {
    const { tenant, name, scopes, expires } = only(given, 'tenant', 'name', 'scopes', 'expires');
    const ask = { tenant: needed(tenant, 'tenant'), name: needed(name, 'name') };
    const [chosen, expiresInSeconds] = [scopesOf(scopes), secondsOf(expires, 'expires')];
    const more = { ...(chosen && { scopes: chosen }), ...(expiresInSeconds !== undefined && { expiresInSeconds }) };
    return { one: await admin.keys.create({ ...ask, ...more }) };
  },
  async show(admin, given, key) {
    only(given);
    return { one: await admin.keys.read(key) };
  },
  async rotate(admin, given, key) {
    const { overlap, expires } = only(given, 'overlap', 'expires');
    const [overlapSeconds, expiresInSeconds] = [secondsOf(overlap, 'overlap'), secondsOf(expires, 'expires')];
    const ask = {
      ...(overlapSeconds !== undefined && { overlapSeconds }),
      ...(expiresInSeconds !== undefined && { expiresInSeconds }),
    };
    return { one: await admin.keys.rotate(key, ask) };
  },
  async revoke(admin, given, key) {
    only(given);
    await admin.keys.revoke(key);
    return { said: `The key ${key} is revoked.` };
  },
};

const audit: Command = async (admin, given) => {
  const { tenant } = only(given, 'tenant');
  const many = await take(admin.audit(tenant === undefined ? {} : { tenant }), given);
  return { many, columns: ['at', 'actor', 'action', 'tenant', 'target', 'details'] };
};

/** Commands that are about everything, or say by options what they are about. */
const withoutSubject = new Set(['tenants list', 'keys list', 'keys create', 'audit']);

const groups: Record<string, Record<string, Command> | Command> = { tenants, keys, audit };

/** The command that these words are, ready to be run. Throws `Misuse` for any others. */
export const commandOf = (words: string[], given: Given): ((admin: Admin) => Promise<Shown>) => {
  const [group = '', ...rest] = words;
  const found = Object.hasOwn(groups, group) ? groups[group] : undefined;
  const isGroup = typeof found === 'object';
  const verb = isGroup ? (rest.shift() ?? '') : '';
  const command = isGroup && Object.hasOwn(found, verb) ? found[verb] : found;
  const name = isGroup ? `${group} ${verb}` : group;
  if (typeof command !== 'function') throw new Misuse(`There is no command "${words.join(' ')}".`);
  const expected = withoutSubject.has(name) ? 0 : 1;
  if (rest.length !== expected)
    throw new Misuse(expected === 0 ? `"${name}" takes only options.` : `"${name}" takes one name or id.`);
  return (admin) => command(admin, given, rest[0] ?? '');
};
