import { chooseDriver } from '../../services/gateway/composition/choose-driver.ts';
import { readConfig } from '../../services/gateway/config.ts';
import type { Driver, Instance } from '../../services/gateway/drivers/driver.ts';
import { openStore, type Store } from '../../services/gateway/store/store.ts';
import { databaseUrl, eventually, type RunningGateway } from './harness.ts';

/** A look behind a gateway: at its metrics, its database, and what its driver has. */
export interface PoolView extends AsyncDisposable {
  driver: Driver;
  store: Store;
  /** The value of a series of `/metrics`; 0 while it is not there. */
  metric: (series: string) => Promise<number>;
  instances: () => Promise<Instance[]>;
  /** Waits until a pool has so many warm instances and nothing is being made or ended. */
  full: (size: number, template?: string) => Promise<void>;
}

const fillMs = 240_000;

/** Looks behind a gateway that runs on `driver`. */
export const viewPool = async (gateway: RunningGateway, name: string): Promise<PoolView> => {
  const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
  const config = readConfig({ CODEBOX_DATA_DIR: gateway.dataDir, CODEBOX_DRIVER: name });
  const driver = await chooseDriver(config, (await store.keys.deployment('none')).id);
  const metric: PoolView['metric'] = async (series) => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    const line = text.split('\n').find((one) => one.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? 0);
  };
  return {
    driver,
    store,
    metric,
    instances: () => driver.list(AbortSignal.timeout(30_000)),
    async full(size, template = 'python') {
      const count = (state: string) => metric(`codebox_pool_instances{template="${template}",state="${state}"}`);
      await eventually(async () => {
        const [warm, creating, destroying] = await Promise.all(['warm', 'creating', 'destroying'].map(count));
        return warm === size && creating === 0 && destroying === 0;
      }, fillMs);
    },
    [Symbol.asyncDispose]: () => store.close(),
  };
};
