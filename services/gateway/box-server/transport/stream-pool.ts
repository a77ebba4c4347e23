import { Agent, type Dispatcher } from 'undici';
import { CodeBoxError } from '#contract';

/**
 * Connections to one box for responses that may last, up to `most`. A request beyond them is refused at once, because it would wait for
 * an unknown time.
 */
export const createStreamPool = (options: Agent.Options, most: number) => {
  const agent = new Agent({ ...options, connections: null });
  let open = 0;

  return {
    /** Throws `too_many_requests` when all connections are in use. */
    async request(request: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
      if (open >= most)
        throw new CodeBoxError('too_many_requests', 'Too many runs or transfers of this box are open.', {
          retryAfterSeconds: 1,
        });
      open += 1;
      const release = () => {
        open -= 1;
      };
      try {
        const response = await agent.request(request);
        response.body.once('close', release);
        return response;
      } catch (error) {
        release();
        throw error;
      }
    },

    destroy: () => agent.destroy(),
  };
};

export type StreamPool = ReturnType<typeof createStreamPool>;
