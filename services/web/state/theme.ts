import { useSyncExternalStore } from 'react';

export const themes = ['system', 'light', 'dark'] as const;

export type Theme = (typeof themes)[number];

const name = 'codebox-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

const chosen = (): Theme => themes.find((theme) => theme === localStorage.getItem(name)) ?? 'system';

const apply = () => {
  const theme = chosen();
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
};

system.addEventListener('change', apply);

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const applyTheme = apply;

export const chooseTheme = (theme: Theme): void => {
  localStorage.setItem(name, theme);
  apply();
};

export const useTheme = (): Theme => useSyncExternalStore(subscribe, chosen);

/** Whether dark colours are shown, by choice or by the system's setting. */
export const useIsDark = (): boolean =>
  useSyncExternalStore(subscribe, () => chosen() === 'dark' || (chosen() === 'system' && system.matches));
