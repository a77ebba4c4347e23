/** The data of a chart: a figure of Plotly, or a specification of Vega or Vega-Lite. */
export interface Chart {
  kind: 'plotly' | 'vega' | 'vega-lite';
  figure: object;
  isDark: boolean;
}

const kinds: Record<string, Chart['kind']> = { plotly: 'plotly', vega: 'vega', vegalite: 'vega-lite' };

/** The chart among the representations of a value, if there is one. */
export const chartIn = (mime: Record<string, unknown>): Omit<Chart, 'isDark'> | null => {
  for (const [type, figure] of Object.entries(mime)) {
    const kind = kinds[/^application\/vnd\.(plotly|vega|vegalite)\.v\d+[+.]json$/.exec(type)?.[1] ?? ''];
    if (kind !== undefined && typeof figure === 'object' && figure !== null) return { kind, figure };
  }
  return null;
};
