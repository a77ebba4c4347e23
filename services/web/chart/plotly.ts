import { newPlot, purge } from 'plotly.js-strict-dist-min';

interface Figure {
  data?: unknown;
  layout?: { template?: { layout?: Record<string, unknown> } } & Record<string, unknown>;
  frames?: unknown;
}

const axis = { gridcolor: '#3a3a48', linecolor: '#6f6f82', zerolinecolor: '#6f6f82' };
const darkLayout = {
  paper_bgcolor: 'transparent',
  plot_bgcolor: 'transparent',
  font: { color: '#ececf3' },
  xaxis: axis,
  yaxis: axis,
};

/** Plotly's default template, adapted to a dark page; a template that the code chose stays. */
const themed = (layout: NonNullable<Figure['layout']>, isDark: boolean): object => {
  const was = layout.template?.layout ?? {};
  const isUsual = was.paper_bgcolor === undefined || was.paper_bgcolor === 'white';
  if (!isDark || !isUsual) return layout;
  const mixed = Object.entries(darkLayout).map(([name, value]) => [
    name,
    typeof value === 'object' ? { ...(was[name] ?? {}), ...value } : value,
  ]);
  return { ...layout, template: { ...layout.template, layout: { ...was, ...Object.fromEntries(mixed) } } };
};

/** Draws a figure in the form of Plotly's Python library. Resolves with a function that ends it. */
export const draw = async (element: HTMLElement, figure: object, isDark: boolean): Promise<() => void> => {
  const { data, layout = {}, frames }: Figure = figure;
  const config = { responsive: true, displaylogo: false };
  await newPlot(element, { data, layout: themed(layout, isDark), frames, config });
  return () => purge(element);
};
