import { useSyncExternalStore } from 'react';

export const views = ['chat', 'notebook', 'terminal'] as const;

export type View = (typeof views)[number];

/** What the address names: a chat, or the one that is not there yet, and how it is looked at. */
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

/** The same place in the history: a chat that came to be takes the place of the one that was not there yet. */
export const replaceRoute = (route: Route): void => {
  history.replaceState(null, '', hashOf(route));
  dispatchEvent(new HashChangeEvent('hashchange'));
};

const subscribe = (listener: () => void) => {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
};

export const useRoute = (): Route => parseRoute(useSyncExternalStore(subscribe, () => location.hash));
