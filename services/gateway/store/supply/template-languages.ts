import { and, eq } from 'drizzle-orm';
import type { Contents } from '#contract';
import type { Database } from '../database.ts';
import { templateLanguages } from '../schema.ts';

/** The languages and contents of an instance, and the revision of its template that it was created from. */
export interface ReportedLanguages {
  revision: string;
  languages: readonly string[];
  /** Null for a box server that does not report them. */
  contents: Contents | null;
}

/** The latest report of languages for each template of a site. */
export const createTemplateLanguageStore = (db: Database) => ({
  async find(site: string, template: string): Promise<ReportedLanguages | undefined> {
    const [row] = await db
      .select({
        revision: templateLanguages.revision,
        languages: templateLanguages.languages,
        contents: templateLanguages.contents,
      })
      .from(templateLanguages)
      .where(and(eq(templateLanguages.site, site), eq(templateLanguages.template, template)));
    return row;
  },

  async put(site: string, template: string, { revision, languages, contents }: ReportedLanguages): Promise<void> {
    const report = { revision, languages: [...languages], contents };
    await db
      .insert(templateLanguages)
      .values({ site, template, ...report })
      .onConflictDoUpdate({ target: [templateLanguages.site, templateLanguages.template], set: report });
  },
});

export type TemplateLanguageStore = ReturnType<typeof createTemplateLanguageStore>;
