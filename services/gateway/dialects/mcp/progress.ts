import type { ServerContext } from '@modelcontextprotocol/server';

/** How often progress is reported, and how much of the output a report has. */
const everyMs = 200;
const maxText = 2000;
/** Nothing more is reported after this many characters: a slow reader must not fill the memory. The result has the output. */
const maxTotal = 1_000_000;

/** Reports the output of a run while it is in progress, if the client asks for progress. */
export const createProgress = ({ mcpReq }: ServerContext): { add: (text: string) => void } & Disposable => {
  const token = mcpReq._meta?.progressToken;
  let [pending, count, total] = ['', 0, 0];
  let timer: NodeJS.Timeout | undefined;

  const report = () => {
    timer = undefined;
    if (pending === '' || token === undefined) return;
    const params = { progressToken: token, progress: ++count, message: pending };
    total += pending.length;
    pending = '';
    timer = setTimeout(report, everyMs);
    // The client may have left.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
  };

  return {
    add(text) {
      if (token === undefined || total > maxTotal) return;
      pending = (pending + text).slice(-maxText);
      if (timer === undefined) report();
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  };
};
