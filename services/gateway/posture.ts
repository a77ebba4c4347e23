import { ConfigurationError } from '../configuration-error.ts';
import type { Template } from './boxes/supply/templates.ts';
import type { Config } from './config.ts';
import type { Capabilities } from './drivers/driver.ts';

const loopback = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * Returns a sentence for each part of the configured isolation that cannot be applied here; none when the gateway may serve. Limits that
 * are not enforced are tolerated only while the gateway listens on loopback.
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
      .map(({ name, network }) => `Template ${name} needs network ${network}, which this driver does not offer here.`),
    ...(missing.length > 0 && !loopback.has(host)
      ? [`Limits on ${missing.join(', ')} are not enforced here, and ${host} is reachable from other machines.`]
      : []),
  ];
};

/** Throws a ConfigurationError unless all isolation is in force; with `CODEBOX_UNSAFE=1` it only warns. */
export const requireIsolation = (unmet: string[], isUnsafe: boolean, warn: (text: string) => void): void => {
  if (unmet.length === 0) return;
  if (!isUnsafe) throw new ConfigurationError(`${unmet.join('\n')}\nSet CODEBOX_UNSAFE=1 to serve anyway.`);
  for (const text of unmet) warn(`UNSAFE: ${text}`);
};
