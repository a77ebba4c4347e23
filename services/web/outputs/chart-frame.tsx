import { useMemo, useRef } from 'react';
import type { Chart } from '../chart/chart.ts';
import { useIsDark } from '../state/theme.ts';
import { useFrame } from './use-frame.ts';

const emptyHeight = 320;
const maxHeight = 1000;

/** A chart that the page's own code draws from the data of a box, in a document without an origin. */
export const ChartFrame = ({ chart }: { chart: Omit<Chart, 'isDark'> }) => {
  const frame = useRef<HTMLIFrameElement>(null);
  const isDark = useIsDark();
  // The data as text: when the page reads the same figure again, it is not drawn again.
  const content = useMemo(() => JSON.stringify({ ...chart, isDark } satisfies Chart), [chart, isDark]);
  const { height, fault } = useFrame(frame, content);
  if (fault !== null) return <p className="left-out">This chart could not be drawn: {fault}</p>;
  return (
    <iframe
      ref={frame}
      className="html-frame"
      src="/chart.html"
      sandbox="allow-scripts allow-downloads"
      title="Chart made by the code"
      style={{ height: Math.min(Math.max(height ?? emptyHeight, 24), maxHeight) }}
    />
  );
};
