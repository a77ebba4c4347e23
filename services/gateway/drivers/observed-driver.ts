import { SpanKind } from '@opentelemetry/api';
import { CodeBoxError } from '#contract';
import { inSpan } from '../tracing/span.ts';
import type { Driver } from './driver.ts';

/** A completed call of a driver; `outcome` is `ok` or the code of its error. */
export interface DriverCall {
  call: string;
  outcome: string;
  seconds: number;
}

/** Wraps a driver so that each call is reported to `onCall` and traced. */
export const observeDriver = (driver: Driver, onCall: (call: DriverCall) => void): Driver => {
  const observe = async <T>(call: string, perform: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    const report = (outcome: string) => onCall({ call, outcome, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const result = await inSpan(() => ({ name: `${driver.kind} ${call}`, kind: SpanKind.CLIENT }), perform);
      report('ok');
      return result;
    } catch (error) {
      report(error instanceof CodeBoxError ? error.code : 'internal');
      throw error;
    }
  };
  const { changed, checkPlacement, gpuObstacle, lacksImage, freeze, thaw, volumes, watch } = driver;
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
    ...(checkPlacement && { checkPlacement }),
    ...(gpuObstacle && { gpuObstacle }),
    ...(lacksImage && { lacksImage: (image, signal) => observe('lacksImage', () => lacksImage(image, signal)) }),
    ...(freeze && { freeze: (id, signal) => observe('freeze', () => freeze(id, signal)) }),
    ...(thaw && { thaw: (id, signal) => observe('thaw', () => thaw(id, signal)) }),
    ...(volumes && {
      volumes: {
        make: (volume, signal) => observe('makeVolume', () => volumes.make(volume, signal)),
        remove: (id, signal) => observe('removeVolume', () => volumes.remove(id, signal)),
        list: (signal) => observe('listVolumes', () => volumes.list(signal)),
      },
    }),
    ...(changed && { changed }),
    ...(watch && { watch }),
    usage: (ids, signal) => observe('usage', () => driver.usage(ids, signal)),
    ping: (signal) => observe('ping', () => driver.ping(signal)),
    capacity: (signal) => observe('capacity', () => driver.capacity(signal)),
    bind: (id, change, signal) => observe('bind', () => driver.bind(id, change, signal)),
  };
};
