/** An event without data that any number of listeners may be subscribed to, which lets a part report to parts built after it. */
export const createNotice = () => {
  const listeners = new Set<() => void>();
  return {
    subscribe: (listener: () => void): void => void listeners.add(listener),
    publish(): void {
      for (const listener of listeners) listener();
    },
  };
};

export type Notice = ReturnType<typeof createNotice>;
