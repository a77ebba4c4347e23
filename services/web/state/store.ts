import { useSyncExternalStore } from 'react';

/** A value that outlives the components that show it. */
export interface Store<T> {
  get: () => T;
  set: (change: (was: T) => T) => void;
  subscribe: (listener: () => void) => () => void;
}

/** With `paceMs`, many changes in a row are told to the listeners as one: an answer comes in hundreds of pieces a second. */
export const createStore = <T>(initial: T, { paceMs }: { paceMs?: number } = {}): Store<T> => {
  const listeners = new Set<() => void>();
  let value = initial;
  let isDue = false;
  const tell = () => {
    isDue = false;
    for (const listener of listeners) listener();
  };
  return {
    get: () => value,
    set: (change) => {
      value = change(value);
      if (paceMs === undefined) tell();
      else if (!isDue) setTimeout(tell, paceMs);
      isDue = paceMs !== undefined;
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};

export const useStore = <T>({ subscribe, get }: Store<T>): T => useSyncExternalStore(subscribe, get);
