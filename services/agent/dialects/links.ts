/** A signed link as the agent writes it, without an origin; not one inside another URL. */
const signedLink = /(?<![\w.:/%-])\/v1\/files\/(?=[\w.~-]+\/)/g;

/** Prefixes every signed link of the agent with `origin`, for readers that are not on its page. */
export const withOrigin = (text: string, origin: string): string => text.replaceAll(signedLink, `${origin}/v1/files/`);

/** Resolves one link of the agent against `origin`. */
export const absolute = (url: string, origin: string): string => new URL(url, origin).href;

/** The token of a signed link. */
export const tokenOf = (url: string): string => url.split('/')[3] ?? '';

/** Positions of signed links to a file of this name in a text, as half-open ranges. */
export const linksTo = (text: string, name: string): { start: number; end: number }[] => {
  const escaped = encodeURIComponent(name).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const link = new RegExp(`(?:https?://[^\\s/()]+)?/v1/files/[\\w.~-]+/${escaped}(?![^)\\s"'>\\]])`, 'g');
  return [...text.matchAll(link)].map((match) => ({ start: match.index, end: match.index + match[0].length }));
};

/** Markdown for a link or a picture. */
export const markdownLink = (name: string, url: string, isPicture = false): string =>
  `${isPicture ? '!' : ''}[${name.replaceAll(/[[\]\\]/g, '\\$&')}](${url})`;
