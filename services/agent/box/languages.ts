import { type Client, CodeBoxError, defaultTemplate } from '#contract';

const keptMs = 60_000;

/**
 * The languages of the gateway's default template, read at most once a minute once they are known; empty until then,
 * and while the gateway cannot be reached.
 */
export const createLanguages = (client: Client, now: () => number = () => performance.now()) => {
  let known: { until: number; languages: string[] } = { until: Number.NEGATIVE_INFINITY, languages: [] };
  return async (): Promise<string[]> => {
    if (now() < known.until) return known.languages;
    try {
      const { languages } = await client.templates.read(defaultTemplate, { deadlineSeconds: 5 });
      if (languages) known = { until: now() + keptMs, languages };
    } catch (error) {
      // The page loads anyway, and shows what does not work.
      if (!(error instanceof CodeBoxError)) throw error;
    }
    return known.languages;
  };
};
