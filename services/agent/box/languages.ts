import { type Client, CodeBoxError } from '#contract';

const keptMs = 60_000;

/**
 * The languages of the gateway's default template, read at most once a minute; empty while the gateway cannot be
 * reached.
 */
export const createLanguages = (client: Client, now: () => number = () => performance.now()) => {
  let known = { until: Number.NEGATIVE_INFINITY, languages: [] as string[] };
  return async (): Promise<string[]> => {
    if (now() < known.until) return known.languages;
    try {
      const { value: template } = await client.templates.list({ deadlineSeconds: 5 }).next();
      known = { until: now() + keptMs, languages: template?.languages ?? [] };
    } catch (error) {
      // The page loads anyway, and says what does not work.
      if (!(error instanceof CodeBoxError)) throw error;
    }
    return known.languages;
  };
};
