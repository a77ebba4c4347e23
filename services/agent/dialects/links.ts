/** A signed link as the agent writes it: below its own address. Not one that stands inside of another URL. */
const signedLink = /(?<![\w.:/%-])\/v1\/files\/(?=[\w.~-]+\/)/g;

/** The same text with every signed link of the agent led by `origin`, for readers that are not on its page. */
export const withOrigin = (text: string, origin: string): string => text.replaceAll(signedLink, `${origin}/v1/files/`);

/** One link of the agent as a URL of `origin`. */
export const absolute = (url: string, origin: string): string => new URL(url, origin).href;

/** What a link of the agent is opened by. */
export const tokenOf = (url: string): string => url.split('/')[3] ?? '';

/** Where signed links to a file of this name stand in a text, as half-open ranges. */
export const linksTo = (text: string, name: string): { start: number; end: number }[] => {
  const escaped = encodeURIComponent(name).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const link = new RegExp(`(?:https?://[^\\s/()]+)?/v1/files/[\\w.~-]+/${escaped}(?![^)\\s"'>\\]])`, 'g');
  return [...text.matchAll(link)].map((match) => ({ start: match.index, end: match.index + match[0].length }));
};

/** Markdown of a link, or of a picture. */
export const markdownLink = (name: string, url: string, isPicture = false): string =>
  `${isPicture ? '!' : ''}[${name.replaceAll(/[[\]\\]/g, '\\$&')}](${url})`;
