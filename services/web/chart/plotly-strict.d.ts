declare module 'plotly.js-strict-dist-min' {
  /** Draws a figure; its layout is taken as it is. */
  export function newPlot(
    element: HTMLElement,
    figure: { data?: unknown; layout?: object; frames?: unknown; config?: object },
  ): Promise<HTMLElement>;
}
