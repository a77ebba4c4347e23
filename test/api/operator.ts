import type { NewApiKey, Quotas, Tenant } from '#contract';
import { createClient } from '#contract';
import { openStore } from '../../services/gateway/store/store.ts';
import { freePort } from '../free-port.ts';
import { hostService } from '../running-services.ts';
import { databaseUrl, eventually, type RunningGateway } from './harness.ts';

/** The admin key of gateways with an operator. */
export const adminKey = 'an-operator-key-of-the-tests';

/** Creates a tenant with these quotas, and a client with a key of it. */
export const makeTenant = async (gateway: RunningGateway, quotas: Partial<Quotas> = {}) => {
  const { admin } = createClient({ url: gateway.url, key: adminKey });
  const tenant: Tenant = await admin.tenants.create({ name: 'tested', quotas });
  const made: NewApiKey = await admin.keys.create({ tenant: tenant.id, name: 'test' });
  return { admin, tenant, key: made.key, client: createClient({ url: gateway.url, key: made.key }) };
};

/** Deletes all tenants but the first with their boxes, also those that a failed test has left; call it before `dispose`. */
export const endTenants = async (gateway: RunningGateway): Promise<void> => {
  const { admin } = createClient({ url: gateway.url, key: adminKey });
  const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
  for await (const { id, name } of admin.tenants.list()) if (name !== 'dev') await admin.tenants.delete(id);
  await eventually(async () => Object.keys(await store.boxes.countByState()).length === 0, 60_000);
  await store.close();
};

/** Starts a second gateway on the same database and host, without an admin key unless `env` has one. */
export const startSecond = async (first: RunningGateway, driver: string, env: Record<string, string> = {}) => {
  const port = await freePort();
  const { stop } = await hostService('gateway', {
    CODEBOX_DATA_DIR: first.dataDir,
    CODEBOX_DRIVER: driver,
    CODEBOX_LOG_LEVEL: 'silent',
    CODEBOX_PORT: String(port),
    CODEBOX_WARM_BOXES: '0',
    DATABASE_URL: await databaseUrl(first.dataDir),
    ...env,
  });
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: stop };
};

export type SecondGateway = Awaited<ReturnType<typeof startSecond>>;
