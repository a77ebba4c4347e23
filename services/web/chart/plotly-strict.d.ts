declare module 'plotly.js-strict-dist-min' {
  /** Draws a figure, with its layout unchanged. */
  export function newPlot(
    element: HTMLElement,
    figure: { data?: unknown; layout?: object; frames?: unknown; config?: object },
  ): Promise<HTMLElement>;

  /** Removes a figure, with its listeners. */
  export function purge(element: HTMLElement): void;
}
