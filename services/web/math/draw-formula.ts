import katex from 'katex';
import 'katex/dist/katex.min.css';

const maxLength = 20_000;

/**
 * Draws a formula in TeX, which is hostile: it creates no links and loads nothing. A formula that KaTeX does not
 * support stays as text.
 */
export const drawFormula = (element: HTMLElement, tex: string, displayMode: boolean): void => {
  if (tex.length > maxLength) return;
  try {
    const options = { displayMode, trust: false, strict: 'ignore', maxSize: 50, maxExpand: 1000 } as const;
    element.innerHTML = katex.renderToString(tex, options);
  } catch {
    // The formula stays as text.
  }
};
