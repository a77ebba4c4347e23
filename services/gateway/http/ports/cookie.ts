const name = 'codebox-port';
const ours = /^[\s=]*(?:__Host-)?codebox-/i;
const session = /^\s*(?:__Host-)?codebox-port=([\w-]+)\s*$/;

/** Whether this is a cookie of CodeBox itself, even one without a name (`=codebox-…`): servers in boxes neither receive nor set them. */
export const isOwnCookie = (cookie: string): boolean => ours.test(cookie);

/** Returns the session tokens among the cookies of a request. */
export const ownCookies = (cookies: string | undefined): string[] =>
  (cookies ?? '').split(';').flatMap((cookie) => session.exec(cookie)?.[1] ?? []);

/** Returns the Set-Cookie value of a session, restricted to one port: to its prefix, or to its host. */
export const ownCookie = (token: string, prefix: string, isSecure: boolean, seconds: number): string => {
  // Browsers accept a name with this prefix only from the host itself and only over TLS.
  const fullName = isSecure && prefix === '' ? `__Host-${name}` : name;
  const attributes = [`Path=${prefix}/`, `Max-Age=${seconds}`, 'HttpOnly', 'SameSite=Lax'];
  return [`${fullName}=${token}`, ...attributes, ...(isSecure ? ['Secure'] : [])].join('; ');
};

/**
 * Rewrites a Set-Cookie value of a server for the browser: for this host only, and below `prefix` when the server has no host of its own.
 * Returns undefined for a cookie that a server must not set.
 */
export const confineCookie = (cookie: string, prefix: string): string | undefined => {
  const [pair = '', ...attributes] = cookie.split(';');
  if (isOwnCookie(pair)) return undefined;
  const kept = attributes.filter((attribute) => !/^\s*(?:domain|path)\s*(?:=|$)/i.test(attribute));
  const paths = attributes.flatMap((attribute) => /^\s*path\s*=(.*)$/is.exec(attribute)?.[1]?.trim() ?? []);
  return [pair, ...kept, ...pathAttribute(paths.at(-1), prefix)].join(';');
};

const pathAttribute = (path: string | undefined, prefix: string): string[] => {
  if (prefix === '') return path === undefined ? [] : [` Path=${path}`];
  // Without a path the browser uses the folder of the page, which may be above the prefix.
  if (path === undefined || !path.startsWith('/')) return [` Path=${prefix}/`];
  return [` Path=${path === prefix || path.startsWith(`${prefix}/`) ? path : prefix + path}`];
};
