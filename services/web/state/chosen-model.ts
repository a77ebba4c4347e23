import type { Model } from '#contract';
import { keptModelKey } from '../api/kept.ts';

/** `openai` of `openai/gpt-5`. */
export const providerOf = (model: string): string => model.slice(0, model.indexOf('/'));

/** The model that is asked: the chosen one, else the default one, else the first. Undefined where none is known. */
export const chosenModel = (models: readonly Model[], chosen: string | null): Model | undefined =>
  models.find(({ id, isDefault }) => (chosen === null ? isDefault : id === chosen)) ?? models[0];

/** The reader's own key for a model; null when none was given. */
export const ownKeyFor = (model: Model | undefined): string | null =>
  model === undefined ? null : keptModelKey(providerOf(model.id)).get();

/** Whether a question can be sent to it: by the operator's key or by the reader's own. */
export const canBeAsked = (model: Model | undefined): boolean =>
  model !== undefined && (!model.needsKey || ownKeyFor(model) !== null);
