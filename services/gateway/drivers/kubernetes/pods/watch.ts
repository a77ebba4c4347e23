import { makeInformer, type V1Pod } from '@kubernetes/client-node';
import type { Why } from '../../driver.ts';
import type { Cluster } from '../api/cluster.ts';
import { instanceLabel } from './pod.ts';
import { listPods } from './store.ts';
import { whyDisrupted } from './why.ts';

export interface WatchOptions {
  cluster: Cluster;
  namespace: string;
  selector: string;
  /** Called when a pod has ended, is being removed, or is gone. */
  onEnd: (id: string) => void;
  /** Called when someone other than a gateway removes a pod, with the reason. */
  onDisrupted: (id: string, why: Why) => void;
}

const retryMs = 1000;

/** Follows the pods of a deployment with an informer, which lists them again whenever it may have missed events. */
export const watchPods = ({ cluster, namespace, selector, onEnd, onDisrupted }: WatchOptions): Disposable => {
  const stop = new AbortController();
  const list = () => listPods(cluster, namespace, selector, stop.signal);
  const informer = makeInformer<V1Pod>(cluster.config, `/api/v1/namespaces/${namespace}/pods`, list, selector);
  const idOf = (pod: V1Pod) => pod.metadata?.labels?.[instanceLabel] ?? '';
  const start = () => {
    // All other calls report an unavailable API server.
    if (!stop.signal.aborted) informer.start().catch(startLater);
  };
  const startLater = () => void setTimeout(start, retryMs).unref();

  informer.on('error', startLater);
  /** Notes the reason while the pod is still there: nobody can read it once the pod is gone. */
  const noteDisruption = (pod: V1Pod) => {
    const why = whyDisrupted(pod);
    if (why) onDisrupted(idOf(pod), why);
  };
  const note = (pod: V1Pod) => {
    noteDisruption(pod);
    const { phase } = pod.status ?? {};
    if (pod.metadata?.deletionTimestamp || phase === 'Failed' || phase === 'Succeeded') onEnd(idOf(pod));
  };
  informer.on('add', note);
  informer.on('update', note);
  informer.on('delete', (pod) => {
    noteDisruption(pod);
    onEnd(idOf(pod));
  });
  start();
  return {
    [Symbol.dispose]: () => {
      stop.abort();
      void informer.stop();
    },
  };
};
