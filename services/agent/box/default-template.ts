import { type Client, fullTemplate } from '#contract';

const keptMs = 60_000;

/**
 * The template of chats that choose none: `full` where the gateway has it, read at most once a minute, else undefined for the default
 * of the gateway. A gateway that cannot be reached fails the request that follows.
 */
export const createDefaultTemplate = (client: Client, now: () => number = () => performance.now()) => {
  let known: { until: number; template: string | undefined } | undefined;
  return async (): Promise<string | undefined> => {
    if (known && now() < known.until) return known.template;
    const template = await client.templates.read(fullTemplate, { deadlineSeconds: 5 }).then(
      ({ name }) => name,
      () => undefined,
    );
    known = { until: now() + keptMs, template };
    return template;
  };
};

export type DefaultTemplate = ReturnType<typeof createDefaultTemplate>;
