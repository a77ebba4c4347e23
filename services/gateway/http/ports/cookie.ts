const name = 'codebox-port';
const ours = /^[\s=]*(?:__Host-)?codebox-/i;
const session = /^\s*(?:__Host-)?codebox-port=([\w-]+)\s*$/;

/** Whether this is a cookie of CodeBox itself (`name=value…`), also as one without a name: a server neither sees nor sets them. */
export const isOwnCookie = (cookie: string): boolean => ours.test(cookie);

/** The tokens among the cookies of a request. */
export const ownCookies = (cookies: string | undefined): string[] =>
  (cookies ?? '').split(';').flatMap((cookie) => session.exec(cookie)?.[1] ?? []);

/** The cookie that keeps a session in a browser, for one port only: below its prefix, or on its host. */
export const ownCookie = (token: string, prefix: string, isSecure: boolean, seconds: number): string => {
  // A name that browsers take from this very host only, by TLS.
  const fullName = isSecure && prefix === '' ? `__Host-${name}` : name;
  const attributes = [`Path=${prefix}/`, `Max-Age=${seconds}`, 'HttpOnly', 'SameSite=Lax'];
  return [`${fullName}=${token}`, ...attributes, ...(isSecure ? ['Secure'] : [])].join('; ');
};

/**
 * A cookie of a server as it goes to a browser: for this host only, and at `prefix` only where the server has no host of its
 * own (the server's `/` is there). Undefined for one that is not the server's to set.
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
  // Without a path a browser takes the folder of the page, which may lie above the prefix.
  if (path === undefined || !path.startsWith('/')) return [` Path=${prefix}/`];
  return [` Path=${path === prefix || path.startsWith(`${prefix}/`) ? path : prefix + path}`];
};
