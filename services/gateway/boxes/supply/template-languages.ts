import { isDeepStrictEqual } from 'node:util';
import type { Contents } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { ReportedLanguages, TemplateLanguageStore } from '../../store/supply/template-languages.ts';
import { baseOf, type Template } from './templates.ts';

export interface TemplateLanguagesOptions {
  driver: Pick<Driver, 'site' | 'revision'>;
  store: TemplateLanguageStore;
  background: Background;
}

type ReportingServer = Pick<BoxConnection, 'languages' | 'contents'>;

const [revisionMs, contentsMs] = [5000, 5000];

/**
 * The languages and contents of templates, which their images define. They are reported by instances that have just started, in which no code of a
 * caller has run yet, and are valid for the revision that the instance was created from. All gateways of a site share them.
 */
export const createTemplateLanguages = ({ driver, store, background }: TemplateLanguagesOptions) => {
  const reported = new Map<string, ReportedLanguages>();

  // An unknown revision is no reason to fail a request; the metrics of the driver count the failure.
  const revisionOf = ({ image }: Template): Promise<string | undefined> =>
    driver.revision(image, AbortSignal.timeout(revisionMs)).catch(() => undefined);

  const latestOf = async (template: Template): Promise<ReportedLanguages | undefined> => {
    const name = baseOf(template);
    const revision = await revisionOf(template);
    if (revision === undefined) return undefined;
    if (reported.get(name)?.revision !== revision) {
      const stored = await store.find(driver.site, name);
      if (stored) reported.set(name, stored);
    }
    const latest = reported.get(name);
    return latest?.revision === revision ? latest : undefined;
  };

  return {
    /** Returns the revision that an instance would be created from now; undefined when the driver fails to report it. */
    revisionOf,

    /**
     * Returns the languages of the current revision of a template, the default first; undefined until an instance of it has started, and
     * when the driver fails to report the revision.
     */
    async of(template: Template): Promise<string[] | undefined> {
      const { language } = template;
      const languages = (await latestOf(template))?.languages;
      return languages?.toSorted((a, b) => Number(b === language) - Number(a === language));
    },

    /** Returns the contents of the current revision of a template; undefined under the same conditions. */
    contentsOf: async (template: Template): Promise<Contents | undefined> =>
      (await latestOf(template))?.contents ?? undefined,

    /** Records what an instance of this revision reports, in the background. Nobody must have used it yet. */
    async record(template: Template, revision: string, server: ReportingServer): Promise<void> {
      const name = baseOf(template);
      const known = reported.get(name);
      const languages = await server.languages();
      // A revision has the same contents for ever, so they are read once.
      const contents =
        known?.revision === revision
          ? known.contents
          : await server.contents(AbortSignal.timeout(contentsMs)).catch(() => null);
      const report = { revision, languages, contents };
      if (isDeepStrictEqual(known, report)) return;
      reported.set(name, report);
      background.run('record the languages of a template', () =>
        store.put(driver.site, name, report).catch((error: unknown) => {
          // The next instance is another opportunity.
          reported.delete(name);
          throw error;
        }),
      );
    },
  };
};

export type TemplateLanguages = ReturnType<typeof createTemplateLanguages>;
