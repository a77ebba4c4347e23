import { parse, type Spec, View } from 'vega';
import { expressionInterpreter } from 'vega-interpreter';
import { type Config, compile, type TopLevelSpec } from 'vega-lite';

const [text, line, faint] = ['#ececf3', '#6f6f82', '#3a3a48'];
const dark = {
  background: 'transparent',
  title: { color: text, subtitleColor: text },
  style: { 'guide-label': { fill: text }, 'guide-title': { fill: text } },
  // Elements that are black by default.
  text: { color: text },
  rule: { color: text },
  view: { stroke: faint },
  axis: { domainColor: line, gridColor: faint, tickColor: line },
} satisfies Config;

const isLite = (figure: object): figure is TopLevelSpec =>
  '$schema' in figure && String(figure.$schema).includes('/vega-lite/');

/**
 * Draws a specification of Vega-Lite or Vega. Its expressions are interpreted, never run as code. Resolves with a
 * function that ends it.
 */
export const draw = async (element: HTMLElement, figure: object, isDark: boolean): Promise<() => void> => {
  const config = isDark ? dark : {};
  // An invalid specification fails here, and the error is reported.
  const runtime = isLite(figure)
    ? parse(compile(figure, { config }).spec, {}, { ast: true })
    : parse(figure as Spec, config, { ast: true });
  const view = new View(runtime, {
    container: element,
    expr: expressionInterpreter,
    hover: true,
    renderer: 'svg',
  });
  await view.runAsync();
  return () => view.finalize();
};
