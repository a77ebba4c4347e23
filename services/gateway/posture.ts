import { ConfigurationError } from '../configuration-error.ts';
import type { Template } from './boxes/supply/templates.ts';
import type { Config } from './config.ts';
import type { Capabilities } from './drivers/driver.ts';

const loopback = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * What was asked for but cannot be applied here, in plain sentences; empty when the gateway may serve. Limits that are not
 * enforced are tolerated only while nobody but this machine can reach the gateway.
 */
export const unmetIsolation = (
  { host }: Pick<Config, 'host'>,
  { networks, limits }: Pick<Capabilities, 'networks' | 'limits'>,
  templates: Iterable<Pick<Template, 'name' | 'network'>>,
): string[] => {
  const missing = Object.entries(limits).flatMap(([name, level]) => (level === false ? [name] : []));
  return [
    ...[...templates]
      .filter((template) => !networks.includes(template.network))
      .map(
        ({ name, network }) => `Template ${name} asks for network ${network}, which this driver does not offer here.`,
      ),
    ...(missing.length > 0 && !loopback.has(host)
      ? [`Limits on ${missing.join(', ')} are not enforced here, and ${host} is open to others.`]
      : []),
  ];
};

/** Lets a gateway start only with the isolation that was asked for; `CODEBOX_UNSAFE=1` is the one way round. */
export const requireIsolation = (unmet: string[], isUnsafe: boolean, warn: (text: string) => void): void => {
  if (unmet.length === 0) return;
  if (!isUnsafe) throw new ConfigurationError(`${unmet.join('\n')}\nCODEBOX_UNSAFE=1 serves all the same.`);
  for (const text of unmet) warn(`UNSAFE: ${text}`);
};
