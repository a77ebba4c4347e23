import { createStore } from './store.ts';

const probePauseMs = 1000;
const probeMs = 10_000;

/** Whether a proxy has responded, since it cannot reach the agent: errors of the agent itself are problems. */
const isOfProxy = ({ status, headers }: Response): boolean =>
  status >= 502 && !headers.get('content-type')?.startsWith('application/problem+json');

/** Whether requests reach the agent: `isLost` while they do not. It then polls the agent until it responds. */
export const createConnection = () => {
  const isLost = createStore(false);
  const found = () => isLost.get() && isLost.set(() => false);
  const probe = () =>
    fetch('/v1/info', { signal: AbortSignal.timeout(probeMs) }).then((response) => {
      if (isOfProxy(response)) probeLater();
      else found();
    }, probeLater);
  const probeLater = () => setTimeout(() => void probe(), probePauseMs);
  const lose = () => {
    if (isLost.get()) return;
    isLost.set(() => true);
    probeLater();
  };
  addEventListener('offline', lose);

  return {
    isLost,

    /** The global fetch, which records whether the request got through; rejects when it did not get past a proxy. */
    fetch: async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
      try {
        const response = await fetch(input, init);
        if (isOfProxy(response)) throw new TypeError(`A proxy has responded with ${response.status}.`);
        found();
        return response;
      } catch (error) {
        if (!init?.signal?.aborted) lose();
        throw error;
      }
    },

    /** Resolves when the agent is reachable again; rejects with the signal's reason. */
    back: (signal: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (isLost.get() && !signal.aborted) return;
          stop();
          signal.removeEventListener('abort', look);
          if (signal.aborted) reject(signal.reason);
          else resolve();
        };
        const stop = isLost.subscribe(look);
        signal.addEventListener('abort', look, { once: true });
        look();
      }),
  };
};

export type Connection = ReturnType<typeof createConnection>;
