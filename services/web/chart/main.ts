import type { Chart } from './chart.ts';
import './chart.css';

const element = document.getElementById('chart');
type Report = { type: 'ready' } | { type: 'height'; height: number } | { type: 'failed'; of: string; detail: string };
const report = (message: Report) => parent.postMessage(message, '*');
const reportHeight = () => element !== null && report({ type: 'height', height: element.scrollHeight });
const watcher = new ResizeObserver(reportHeight);
let endLast = () => {};

/**
 * Draws a chart in place of the last one. Its data is hostile: the document has no origin and loads only the page's
 * code.
 */
const show = async ({ kind, figure, isDark }: Chart) => {
  if (element === null) return;
  document.documentElement.style.colorScheme = isDark ? 'dark' : 'light';
  const { draw } = kind === 'plotly' ? await import('./plotly.ts') : await import('./vega.ts');
  // The page keeps the height of the last chart until this one has one.
  watcher.disconnect();
  endLast();
  const place = document.createElement('div');
  element.replaceChildren(place);
  endLast = await draw(place, figure, isDark);
  // Browsers tell the observers of a frame nothing while it is out of sight.
  reportHeight();
  watcher.observe(element);
};

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
let newest: string;
let drawing = Promise.resolve();
const listen = ({ source, data }: MessageEvent<string>) => {
  if (source !== parent) return;
  newest = data;
  drawing = drawing.then(async () => {
    try {
      // Code may change a chart faster than it is drawn: then some of its states are skipped.
      if (data === newest) await show(JSON.parse(data));
    } catch (error) {
      if (data === newest) report({ type: 'failed', of: data, detail: textOf(error) });
    }
  });
};
addEventListener('message', listen);
report({ type: 'ready' });
