import { makeInformer, type V1Pod } from '@kubernetes/client-node';
import type { Why } from '../../driver.ts';
import type { Cluster } from '../api/cluster.ts';
import { instanceLabel } from './pod.ts';
import { listPods } from './store.ts';
import { whyDisrupted } from './why.ts';

export interface FollowedPodsOptions {
  cluster: Cluster;
  namespace: string;
  selector: string;
}

interface Followers {
  /** Called when a pod has ended, is being removed, or is gone. */
  onEnd: (id: string) => void;
  /** Called when someone other than a gateway removes a pod, with the reason. */
  onDisrupted: (id: string, why: Why) => void;
}

const retryMs = 1000;
/** How often a pod is to be read although nothing has reported a change: events may be missing. */
const followedMs = 2000;
const unfollowedMs = 200;

/**
 * The pods of a deployment as an informer sees them, which lists them again whenever it may have missed events. They may be outdated: what
 * matters has to be read from the API server.
 */
export const createFollowedPods = ({ cluster, namespace, selector }: FollowedPodsOptions) => {
  const waiting = new Map<string, Set<(pod: V1Pod | undefined) => void>>();
  const idOf = (pod: V1Pod) => pod.metadata?.labels?.[instanceLabel] ?? '';
  let seen: (name: string) => V1Pod | undefined = () => undefined;
  let isFollowing = false;

  const publish = (pod: V1Pod, isGone: boolean) => {
    for (const notice of waiting.get(pod.metadata?.name ?? '') ?? []) notice(isGone ? undefined : pod);
  };

  return {
    /** Returns the pod of this name as it was seen last; undefined if it is unknown or nothing is followed. */
    get: (name: string): V1Pod | undefined => (isFollowing ? seen(name) : undefined),

    /**
     * Resolves when the pod of this name changes into one that matters, or is gone (undefined), and after a while in any case. Never rejects.
     * Call it before reading the pod, so that no change is missed.
     */
    changed(
      name: string,
      signal: AbortSignal,
      matters: (pod: V1Pod | undefined) => boolean = () => true,
    ): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      const notices = waiting.get(name) ?? new Set();
      const notice = (pod: V1Pod | undefined) => void (matters(pod) && resolve());
      waiting.set(name, notices.add(notice));
      const timer = setTimeout(resolve, isFollowing ? followedMs : unfollowedMs);
      const stop = () => resolve();
      signal.addEventListener('abort', stop);
      return promise.finally(() => {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
        notices.delete(notice);
        if (notices.size === 0) waiting.delete(name);
      });
    },

    /** Follows the pods until it is disposed of. */
    follow({ onEnd, onDisrupted }: Followers): Disposable {
      const stop = new AbortController();
      const list = async () => {
        const pods = await listPods(cluster, namespace, selector, stop.signal);
        isFollowing = !stop.signal.aborted;
        return pods;
      };
      const informer = makeInformer<V1Pod>(cluster.config, `/api/v1/namespaces/${namespace}/pods`, list, selector);
      seen = (name) => informer.get(name, namespace);
      const start = () => {
        // All other calls report an unavailable API server.
        if (!stop.signal.aborted) informer.start().catch(startLater);
      };
      const startLater = () => {
        isFollowing = false;
        setTimeout(start, retryMs).unref();
      };

      informer.on('error', startLater);
      /** Notes the reason while the pod is still there: nobody can read it once the pod is gone. */
      const noteDisruption = (pod: V1Pod) => {
        const why = whyDisrupted(pod);
        if (why) onDisrupted(idOf(pod), why);
      };
      const note = (pod: V1Pod) => {
        // After a cut it watches again from where it was, without a list.
        isFollowing = !stop.signal.aborted;
        noteDisruption(pod);
        publish(pod, false);
        const { phase } = pod.status ?? {};
        if (pod.metadata?.deletionTimestamp || phase === 'Failed' || phase === 'Succeeded') onEnd(idOf(pod));
      };
      informer.on('add', note);
      informer.on('update', note);
      informer.on('delete', (pod) => {
        noteDisruption(pod);
        publish(pod, true);
        onEnd(idOf(pod));
      });
      start();
      return {
        [Symbol.dispose]: () => {
          stop.abort();
          isFollowing = false;
          void informer.stop();
        },
      };
    },
  };
};

export type FollowedPods = ReturnType<typeof createFollowedPods>;
