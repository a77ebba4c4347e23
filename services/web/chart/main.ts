import type { Chart } from './chart.ts';
import './chart.css';

const element = document.getElementById('chart');
const report = (message: { type: 'ready' } | { type: 'height'; height: number } | { type: 'failed'; detail: string }) =>
  parent.postMessage(message, '*');

/**
 * Draws the one chart of this document. Its data is hostile: the document has no origin and loads only the page's code.
 */
const show = async ({ kind, figure, isDark }: Chart) => {
  if (element === null) return;
  document.documentElement.style.colorScheme = isDark ? 'dark' : 'light';
  try {
    const { draw } = kind === 'plotly' ? await import('./plotly.ts') : await import('./vega.ts');
    await draw(element, figure, isDark);
    const reportHeight = () => report({ type: 'height', height: element.scrollHeight });
    // Browsers tell the observers of a frame nothing while it is out of sight.
    reportHeight();
    new ResizeObserver(reportHeight).observe(element);
  } catch (error) {
    report({ type: 'failed', detail: error instanceof Error ? error.message : String(error) });
  }
};

const listen = ({ source, data }: MessageEvent<Chart>) => {
  if (source !== parent) return;
  removeEventListener('message', listen);
  void show(data);
};
addEventListener('message', listen);
report({ type: 'ready' });
