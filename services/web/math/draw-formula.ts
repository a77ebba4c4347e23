import katex from 'katex';
import 'katex/dist/katex.min.css';

const maxLength = 20_000;

/**
 * Draws a formula in TeX, which is hostile: it makes no links and loads nothing. One that KaTeX does not know is left as it is
 * written.
 */
export const drawFormula = (element: HTMLElement, tex: string, displayMode: boolean): void => {
  if (tex.length > maxLength) return;
  try {
    const options = { displayMode, trust: false, strict: 'ignore', maxSize: 50, maxExpand: 1000 } as const;
    element.innerHTML = katex.renderToString(tex, options);
  } catch {
    // It stays as it is written.
  }
};
