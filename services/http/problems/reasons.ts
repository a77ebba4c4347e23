import type { ErrorCode, ErrorReason } from '#contract';

/** The reasons of codes that have several: the code, and the text on its page. */
export const problemReasons: Record<ErrorReason, { code: ErrorCode; meaning: string }> = {
  code_running: { code: 'conflict', meaning: 'Code is running in the box and would be lost.' },
  box_hibernated: { code: 'conflict', meaning: 'The box is hibernated: it has files, but no memory and no processes.' },
  box_changing: {
    code: 'conflict',
    meaning: 'The box is being created, paused, hibernated, resumed or ended. Retry after `Retry-After`.',
  },
  task_called_off: { code: 'conflict', meaning: 'The box was used or changed while it was being put to rest.' },
  key_in_use: { code: 'conflict', meaning: 'A request with the same `Idempotency-Key` is still in progress.' },
  effect_unknown: {
    code: 'conflict',
    meaning: 'A request with the same `Idempotency-Key` failed, and whether it had an effect is unknown.',
  },
  answer_not_kept: {
    code: 'conflict',
    meaning: 'A request with the same `Idempotency-Key` was done, but its response is no longer stored.',
  },
  not_waiting: { code: 'conflict', meaning: 'The run has ended, or is not waiting for input.' },
  context_busy: { code: 'conflict', meaning: 'The context is running code.' },
  kernel_start: { code: 'conflict', meaning: 'The kernel of this language cannot be started; `detail` says why.' },
  protocol: {
    code: 'unavailable',
    meaning: 'The box sent an invalid response. A retry does not help; create a new box.',
  },
  node_silent: {
    code: 'unavailable',
    meaning: 'The node of the box is silent, and whether the box still runs is unknown. Retry after `Retry-After`.',
  },
  image_unavailable: {
    code: 'unavailable',
    meaning:
      'The image of the template is missing or cannot be pulled. A retry does not help before the operator has provided it.',
  },
  gpu_unavailable: {
    code: 'unavailable',
    meaning:
      'The host cannot give boxes of the template a GPU. A retry does not help; the operator finds the reason in the log.',
  },
  volume_in_use: { code: 'conflict', meaning: 'A living box, which `detail` names, has the volume.' },
  volume_missing: {
    code: 'unavailable',
    meaning: 'A volume of the box is missing. A retry does not help; the operator may have lost it.',
  },
  volumes_full: {
    code: 'unavailable',
    meaning:
      'The host has no room for such a volume. Delete others, or ask the operator for more (`CODEBOX_VOLUMES_MB`).',
  },
  volumes_unsafe: {
    code: 'unavailable',
    meaning:
      'Code of the box could connect it to others by its volumes, as its image is too old or its kernel has no Landlock. A retry does not help; the operator has to update it.',
  },
  box_refused: {
    code: 'unavailable',
    meaning:
      'The cluster refuses to create such a box, for example because its template names a class that does not exist. A retry does not help; the operator finds the reason in the log.',
  },
};

/** The reasons of one code, in the order of the table. */
export const reasonsOf = (code: ErrorCode): { reason: string; meaning: string }[] =>
  Object.entries(problemReasons)
    .filter(([, of]) => of.code === code)
    .map(([reason, { meaning }]) => ({ reason, meaning }));
