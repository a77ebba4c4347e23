import { isDeepStrictEqual } from 'node:util';
import type { Background } from '../../../waiting/background.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { ReportedLanguages, TemplateLanguageStore } from '../../store/supply/template-languages.ts';
import type { Template } from './templates.ts';

export interface TemplateLanguagesOptions {
  driver: Pick<Driver, 'site' | 'revision'>;
  store: TemplateLanguageStore;
  background: Background;
}

const revisionMs = 5000;

/**
 * The languages of templates, which their images define. They are reported by instances that have just started, in which no code of a
 * caller has run yet, and are valid for the revision that the instance was created from. All gateways of a site share them.
 */
export const createTemplateLanguages = ({ driver, store, background }: TemplateLanguagesOptions) => {
  const reported = new Map<string, ReportedLanguages>();

  // An unknown revision is no reason to fail a request; the metrics of the driver count the failure.
  const revisionOf = ({ image }: Template): Promise<string | undefined> =>
    driver.revision(image, AbortSignal.timeout(revisionMs)).catch(() => undefined);

  return {
    /** Returns the revision that an instance would be created from now; undefined when the driver fails to report it. */
    revisionOf,

    /**
     * Returns the languages of the current revision of a template, the default first; undefined until an instance of it has started, and
     * when the driver fails to report the revision.
     */
    async of(template: Template): Promise<string[] | undefined> {
      const { name, language } = template;
      const revision = await revisionOf(template);
      if (revision === undefined) return undefined;
      if (reported.get(name)?.revision !== revision) {
        const stored = await store.find(driver.site, name);
        if (stored) reported.set(name, stored);
      }
      const latest = reported.get(name);
      if (latest?.revision !== revision) return undefined;
      return latest.languages.toSorted((a, b) => Number(b === language) - Number(a === language));
    },

    /** Records what an instance of this revision reports, in the background. */
    record({ name }: Template, report: ReportedLanguages): void {
      if (isDeepStrictEqual(reported.get(name), report)) return;
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
