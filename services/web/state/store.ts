import { useSyncExternalStore } from 'react';

/**
 * With `paceMs`, listeners are notified once for many changes in a row: an answer arrives in hundreds of pieces a
 * second.
 */
interface Pace {
  paceMs?: number;
}

/** A value that outlives the components that show it. */
export interface Store<T> {
  get: () => T;
  /** `pace` replaces that of the store. */
  set: (change: (was: T) => T, pace?: Pace) => void;
  subscribe: (listener: () => void) => () => void;
}

export const createStore = <T>(initial: T, usual: Pace = {}): Store<T> => {
  const listeners = new Set<() => void>();
  let value = initial;
  let isDue = false;
  const notify = () => {
    isDue = false;
    for (const listener of listeners) listener();
  };
  return {
    get: () => value,
    set: (change, { paceMs } = usual) => {
      value = change(value);
      if (paceMs === undefined) notify();
      else if (!isDue) setTimeout(notify, paceMs);
      isDue = paceMs !== undefined;
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};

export const useStore = <T>({ subscribe, get }: Store<T>): T => useSyncExternalStore(subscribe, get);
