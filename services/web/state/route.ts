import { useSyncExternalStore } from 'react';

export const views = ['chat', 'notebook', 'terminal'] as const;

export type View = (typeof views)[number];

/** The location of the page: a chat, or null for a new one, and its view. */
export interface Route {
  chat: string | null;
  view: View | null;
}

const parseRoute = (hash: string): Route => {
  const [chat = '', view = ''] = hash.replace(/^#\/?/, '').split('/');
  return {
    chat: chat === '' || chat === 'new' ? null : decodeURIComponent(chat),
    view: views.find((name) => name === view) ?? null,
  };
};

export const hashOf = ({ chat, view }: Route): string =>
  `#/${chat === null ? 'new' : encodeURIComponent(chat)}${view === null ? '' : `/${view}`}`;

export const currentRoute = (): Route => parseRoute(location.hash);

export const goTo = (route: Route): void => {
  location.hash = hashOf(route);
};

/** Replaces the current history entry: a new chat takes the place of the entry without one. */
export const replaceRoute = (route: Route): void => {
  history.replaceState(null, '', hashOf(route));
  dispatchEvent(new HashChangeEvent('hashchange'));
};

const subscribe = (listener: () => void) => {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
};

export const useRoute = (): Route => parseRoute(useSyncExternalStore(subscribe, () => location.hash));
