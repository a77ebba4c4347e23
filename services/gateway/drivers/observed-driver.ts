import { SpanKind } from '@opentelemetry/api';
import { CodeBoxError } from '#contract';
import { inSpan } from '../tracing/span.ts';
import type { Driver } from './driver.ts';

/** One call of a driver that is over; `outcome` is `ok` or the code of its error. */
export interface DriverCall {
  call: string;
  outcome: string;
  seconds: number;
}

/** The same driver, which tells of each call, and is traced. */
export const observeDriver = (driver: Driver, onCall: (call: DriverCall) => void): Driver => {
  const observe = async <T>(call: string, ask: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    const tell = (outcome: string) => onCall({ call, outcome, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const answer = await inSpan(() => ({ name: `${driver.kind} ${call}`, kind: SpanKind.CLIENT }), ask);
      tell('ok');
      return answer;
    } catch (error) {
      tell(error instanceof CodeBoxError ? error.code : 'internal');
      throw error;
    }
  };
  const { freeze, thaw, watch } = driver;
  return {
    kind: driver.kind,
    site: driver.site,
    place: driver.place,
    capabilities: driver.capabilities,
    revision: (image, signal) => observe('revision', () => driver.revision(image, signal)),
    create: (spec, signal) => observe('create', () => driver.create(spec, signal)),
    destroy: (id, signal) => observe('destroy', () => driver.destroy(id, signal)),
    list: (signal) => observe('list', () => driver.list(signal)),
    inspect: (id, signal) => observe('inspect', () => driver.inspect(id, signal)),
    ...(freeze && { freeze: (id, signal) => observe('freeze', () => freeze(id, signal)) }),
    ...(thaw && { thaw: (id, signal) => observe('thaw', () => thaw(id, signal)) }),
    ...(watch && { watch }),
    usage: (ids, signal) => observe('usage', () => driver.usage(ids, signal)),
    ping: (signal) => observe('ping', () => driver.ping(signal)),
    capacity: (signal) => observe('capacity', () => driver.capacity(signal)),
    bind: (id, change, signal) => observe('bind', () => driver.bind(id, change, signal)),
  };
};
