import type { V1Pod } from '@kubernetes/client-node';
import type { Instance } from '../../driver.ts';
import { boxPort, instanceLabel } from './pod.ts';
import { whyEnded, whyNotStarted } from './why.ts';

/** Converts a pod; that of a silent node is `running` (see `isSilent`). */
export const instanceOf = (pod: V1Pod, schedulingMs: number): Instance => {
  const id = pod.metadata?.labels?.[instanceLabel] ?? '';
  const { phase, podIP } = pod.status ?? {};
  if (phase === 'Failed' || phase === 'Succeeded') return { id, state: 'ended', why: whyEnded(pod) };
  if (phase !== 'Pending' && podIP) return { id, state: 'running', address: `tls:${bracketed(podIP)}:${boxPort}` };
  const why = whyNotStarted(pod, schedulingMs);
  return { id, state: 'pending', ...(why && { why }) };
};

const bracketed = (ip: string): string => (ip.includes(':') ? `[${ip}]` : ip);
