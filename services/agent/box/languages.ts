import { type Client, CodeBoxError } from '#contract';

const keptMs = 60_000;

/** The languages of boxes, as the default template of the gateway tells, asked for once a minute; none while it cannot be reached. */
export const createLanguages = (client: Client, now: () => number = () => performance.now()) => {
  let known = { until: Number.NEGATIVE_INFINITY, languages: [] as string[] };
  return async (): Promise<string[]> => {
    if (now() < known.until) return known.languages;
    try {
      const { value: template } = await client.templates.list({ deadlineSeconds: 5 }).next();
      known = { until: now() + keptMs, languages: template?.languages ?? [] };
    } catch (error) {
      // The page is there all the same, and says what does not work.
      if (!(error instanceof CodeBoxError)) throw error;
    }
    return known.languages;
  };
};
