import { chooseDriver } from '../../services/gateway/composition/choose-driver.ts';
import { readConfig } from '../../services/gateway/config.ts';
import type { Driver, Instance } from '../../services/gateway/drivers/driver.ts';
import { openStore, type Store } from '../../services/gateway/store/store.ts';
import { databaseUrl, eventually, type RunningGateway } from './harness.ts';

/** Inspects the internals of a gateway: its metrics, its database, and the instances of its driver. */
export interface PoolView extends AsyncDisposable {
  driver: Driver;
  store: Store;
  /** The value of a series of `/metrics`, or 0 if it is missing. */
  metric: (series: string) => Promise<number>;
  instances: () => Promise<Instance[]>;
  /** Waits until a pool has this many warm instances and none is being created or destroyed. */
  full: (size: number, template?: string) => Promise<void>;
}

const fillMs = 240_000;

/** Opens a view of a gateway that runs on the driver `name`. */
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
