import type { Context } from '#contract';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { RouteParts } from '../../../http/app.ts';
import { home } from '../paths.ts';

/**
 * The languages whose contexts every sandbox of E2B begins with. Those of a box start when they are used first: until then they are listed
 * by the names of their languages, which stand for them from then on too.
 */
const usual = ['python', 'javascript'];

/** Returns the language that stands for its context; undefined for the id of any other context. */
export const languageOf = (id: string): string | undefined => (usual.includes(id) ? id : undefined);

const isOf =
  (language: string) =>
  (context: Context): boolean =>
    context.default && context.language === language;

/** The contexts of a sandbox, with those that it begins with. */
export const createUsualContexts = (contexts: Pick<RouteParts['contexts'], 'list' | 'languages'>) => ({
  /** Lists the contexts that are not started yet. */
  async waiting(ref: BoxRef, started: readonly Context[]) {
    const languages = await contexts.languages(ref);
    return usual
      .filter((language) => languages.includes(language) && !started.some(isOf(language)))
      .map((language) => ({ id: language, language, cwd: home }));
  },

  /** Returns the id of the context in its box; undefined for one that is not started yet. */
  async idOf(ref: BoxRef, id: string): Promise<string | undefined> {
    const language = languageOf(id);
    return language === undefined ? id : (await contexts.list(ref)).find(isOf(language))?.id;
  },
});
