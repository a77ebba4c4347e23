import { useEffect, useRef, useState } from 'react';
import { useIsDark } from '../state/theme.ts';

const maxHeight = 560;

const isHeight = (data: unknown): data is { type: 'height'; height: number } =>
  typeof data === 'object' &&
  data !== null &&
  'type' in data &&
  data.type === 'height' &&
  'height' in data &&
  typeof data.height === 'number' &&
  Number.isFinite(data.height);

/**
 * HTML that code has put out, which is hostile: it is shown in a document with an origin of its own that may run scripts and load
 * nothing. All that the page takes from it is a height.
 */
export const HtmlFrame = ({ html, title }: { html: string; title: string }) => {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(40);
  const isDark = useIsDark();
  useEffect(() => {
    let isFilled = false;
    const listen = ({ source, origin, data }: MessageEvent<unknown>) => {
      if (origin !== 'null' || source === null || source !== frame.current?.contentWindow) return;
      if (isHeight(data)) return setHeight(Math.min(Math.max(data.height, 24), maxHeight));
      if (isFilled) return;
      isFilled = true;
      // A document of no origin can be named by no origin.
      frame.current.contentWindow.postMessage({ html, isDark }, '*');
    };
    addEventListener('message', listen);
    return () => removeEventListener('message', listen);
  }, [html, isDark]);
  return (
    <iframe
      // Other text or other colours: another document.
      key={`${isDark}`}
      ref={frame}
      className="html-frame"
      src="/frame.html"
      sandbox="allow-scripts"
      title={title}
      style={{ height }}
    />
  );
};
