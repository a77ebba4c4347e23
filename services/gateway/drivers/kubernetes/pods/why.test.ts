import type { V1ContainerState, V1Pod, V1PodCondition, V1PodStatus } from '@kubernetes/client-node';
import { describe, expect, test } from 'vitest';
import { instanceOf } from './instance.ts';
import { isSilent, whileUnscheduled, whyDisrupted } from './why.ts';

const podWith = (status: V1PodStatus): V1Pod => ({ metadata: { labels: { 'codebox.instance': 'i-1' } }, status });
const boxIs = (state: V1ContainerState): Pick<V1PodStatus, 'containerStatuses'> => ({
  containerStatuses: [{ name: 'box', image: '', imageID: '', ready: false, restartCount: 0, state }],
});
const ended = (exitCode: number, reason: string) => boxIs({ terminated: { exitCode, reason } });
const condition = (type: string, status: string, reason = '', lastTransitionTime = new Date()): V1PodCondition => ({
  type,
  status,
  reason,
  lastTransitionTime,
});
const whyOf = (status: V1PodStatus, schedulingMs = 0) => instanceOf(podWith(status), schedulingMs).why?.code;

describe('why a pod has ended', () => {
  test.each<[string, V1PodStatus, string]>([
    ['its memory limit', ended(137, 'OOMKilled'), 'oom'],
    ['its memory limit, with gVisor', ended(128, 'OOMKilled'), 'oom'],
    ['itself, after a program of it was killed for memory', ended(0, 'OOMKilled'), 'exit'],
    ['a crash', ended(137, 'Error'), 'exit'],
    ['pressure on its node', { reason: 'Evicted', ...ended(137, 'Error') }, 'evicted'],
    ['the shutdown of its node', { reason: 'Terminated', ...ended(137, 'Error') }, 'evicted'],
    ['a critical pod', { reason: 'Preempting' }, 'preempted'],
    ['the loss of its node', { reason: 'NodeLost' }, 'node_lost'],
    ['a node whose CPUs another pod took first', { reason: 'OutOfcpu' }, 'unschedulable'],
    ['a node whose devices another pod took first', { reason: 'OutOfnvidia.com/gpu' }, 'unschedulable'],
    ['a node that could not give it devices', { reason: 'UnexpectedAdmissionError' }, 'unschedulable'],
    ['a node whose labels have changed', { reason: 'NodeAffinity' }, 'unschedulable'],
    [
      'a more important pod',
      { conditions: [condition('DisruptionTarget', 'True', 'PreemptionByScheduler')], ...ended(143, 'Error') },
      'preempted',
    ],
  ])('%s', (_, status, code) => {
    expect(whyOf({ phase: 'Failed', ...status })).toBe(code);
  });
});

describe('why a pod is removed', () => {
  const silent = [condition('Ready', 'False'), condition('ContainersReady', 'True')];
  test.each([
    ['PreemptionByScheduler', [], 'preempted'],
    ['EvictionByEvictionAPI', [], 'evicted'],
    ['DeletionByTaintManager', [], 'evicted'],
    ['DeletionByTaintManager', silent, 'node_lost'],
    ['DeletionByPodGC', [], 'node_lost'],
  ] as const)('%s %#', (reason, others, code) => {
    const conditions = [...others, condition('DisruptionTarget', 'True', reason)];
    expect(whyDisrupted(podWith({ conditions }))?.code).toBe(code);
  });

  test('by its gateway, which is no disruption', () => {
    expect(whyDisrupted(podWith({ phase: 'Running' }))).toBeUndefined();
  });
});

describe('why a pod does not start', () => {
  test.each([
    ['ErrImageNeverPull', 'image'],
    ['InvalidImageName', 'image'],
    // The first attempt failed; the next one may not.
    ['ErrImagePull', undefined],
    ['ImagePullBackOff', 'image'],
    ['CreateContainerError', 'exit'],
    ['ContainerCreating', undefined],
  ])('%s', (reason, code) => {
    expect(whyOf({ phase: 'Pending', ...boxIs({ waiting: { reason } }) })).toBe(code);
  });

  test('no node has room for it, for longer than it may wait', () => {
    const since = (ms: number) => [condition('PodScheduled', 'False', 'Unschedulable', new Date(Date.now() - ms))];
    expect(whyOf({ phase: 'Pending', conditions: since(60_000) }, 10_000)).toBe('unschedulable');
    expect(whyOf({ phase: 'Pending', conditions: since(0) }, 10_000)).toBeUndefined();
  });
});

describe('a pod for which no node has room', () => {
  const pod = (waitedMs: number) =>
    podWith({
      phase: 'Pending',
      conditions: [condition('PodScheduled', 'False', 'Unschedulable', new Date(Date.now() - waitedMs))],
    });
  const coming = { isComing: true, detail: 'TriggeredScaleUp' };

  test('may wait for one that is being added, for three minutes', () => {
    expect(whileUnscheduled(pod(60_000), coming, 10_000)).toEqual({ awaitsHost: true });
    expect(whileUnscheduled(pod(181_000), coming, 10_000)).toMatchObject({
      why: { code: 'unschedulable', detail: 'TriggeredScaleUp', retryAfterSeconds: 60 },
    });
  });

  test('does not wait if none will be added', () => {
    const none = { isComing: false, detail: 'NotTriggerScaleUp' };
    expect(whileUnscheduled(pod(0), none, 10_000)).toEqual({
      why: { code: 'unschedulable', detail: 'NotTriggerScaleUp' },
    });
  });
});

test('a pod is silent when only the control plane calls it not ready', () => {
  const states = (ready: string, containers: string) => ({
    phase: 'Running',
    conditions: [condition('Ready', ready), condition('ContainersReady', containers)],
  });
  expect(isSilent(podWith(states('False', 'True')))).toBe(true);
  expect(isSilent(podWith(states('Unknown', 'True')))).toBe(true);
  expect(isSilent(podWith(states('True', 'True')))).toBe(false);
  // It has just started, or its container has ended.
  expect(isSilent(podWith(states('False', 'False')))).toBe(false);
});

test('the address of a pod with an IPv6 address is in brackets', () => {
  const address = (podIP: string) => instanceOf(podWith({ phase: 'Running', podIP }), 0).address;
  expect([address('10.0.0.7'), address('fd00::7')]).toEqual(['tls:10.0.0.7:7000', 'tls:[fd00::7]:7000']);
});
