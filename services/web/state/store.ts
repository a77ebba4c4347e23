import { useSyncExternalStore } from 'react';

/** A value that outlives the components that show it. */
export interface Store<T> {
  get: () => T;
  set: (change: (was: T) => T) => void;
  subscribe: (listener: () => void) => () => void;
}

/**
 * With `paceMs`, listeners are notified once for many changes in a row: an answer arrives in hundreds of pieces a
 * second.
 */
export const createStore = <T>(initial: T, { paceMs }: { paceMs?: number } = {}): Store<T> => {
  const listeners = new Set<() => void>();
  let value = initial;
  let isDue = false;
  const notify = () => {
    isDue = false;
    for (const listener of listeners) listener();
  };
  return {
    get: () => value,
    set: (change) => {
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
