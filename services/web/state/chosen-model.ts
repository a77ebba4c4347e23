import type { Model } from '#contract';
import { keptModelKey } from '../api/kept.ts';

/** `openai` of `openai/gpt-5`. */
export const providerOf = (model: string): string => model.slice(0, model.indexOf('/'));

/**
 * The model that questions go to: the chosen one, otherwise the default one, otherwise the first. Undefined when none
 * is known.
 */
export const chosenModel = (models: readonly Model[], chosen: string | null): Model | undefined =>
  models.find(({ id, isDefault }) => (chosen === null ? isDefault : id === chosen)) ?? models[0];

/** The reader's own key for a model; null without one. */
export const ownKeyFor = (model: Model | undefined): string | null =>
  model === undefined ? null : keptModelKey(providerOf(model.id)).get();

/** Whether the model can be used, with the key of the operator or of the reader. */
export const isUsable = (model: Model | undefined): boolean =>
  model !== undefined && (!model.needsKey || ownKeyFor(model) !== null);
