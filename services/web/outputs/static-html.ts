const look = `
  :root { font: 14px/1.5 system-ui, sans-serif; }
  body { margin: 0; padding: 2px; overflow-x: auto; color: light-dark(#1b1b24, #ececf3); }
  table { border: 0; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
  th, td { padding: 5px 12px; text-align: right; border: 0; border-bottom: 1px solid light-dark(#e4e4ec, #33333f); }
  th { font-weight: 600; white-space: nowrap; }
  thead th { border-bottom: 2px solid light-dark(#cfcfdb, #4a4a5a); }
  tbody th { color: light-dark(#5b5b6b, #a5a5b8); }
  tbody tr:hover { background: light-dark(#f4f4f9, #24242e); }`;

/** The style of plain HTML in a frame. */
export const frameStyle = (isDark: boolean): string => `${look} :root { color-scheme: ${isDark ? 'dark' : 'light'}; }`;

/**
 * Elements that run, load or navigate by themselves, or hide others that do (a template may become a shadow root).
 * Without scripts, nothing in a document creates new elements.
 */
const active = 'script, link, meta, base, iframe, frame, object, embed, noscript, template';
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:";

/** Removes active elements from HTML; also returns whether there were scripts. */
export const withoutScripts = (html: string): { html: string; hasScripts: boolean } => {
  const { documentElement } = new DOMParser().parseFromString(html, 'text/html');
  const elements = [...documentElement.querySelectorAll('*')];
  const hasScripts = elements.some(
    (element) =>
      element.localName === 'script' ||
      [...element.attributes].some(({ name, value }) => /^on/.test(name) || /^\s*javascript:/i.test(value)),
  );
  for (const element of elements) if (element.matches(active)) element.remove();
  return { html: documentElement.outerHTML, hasScripts };
};

/** The document of such HTML: it loads nothing, and its links lead nowhere. */
export const documentOf = (html: string, isDark: boolean): string =>
  `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">` +
  `<meta http-equiv="x-dns-prefetch-control" content="off"><base target="_blank"><style>${frameStyle(isDark)}</style>${html}`;
