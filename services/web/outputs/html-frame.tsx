import { useEffect, useMemo, useRef, useState } from 'react';
import { useIsDark } from '../state/theme.ts';
import { documentOf, frameStyle, withoutScripts } from './static-html.ts';
import { useFrame } from './use-frame.ts';

const maxHeight = 560;

const heightOf = (height: number | null): number => Math.min(Math.max(height ?? 40, 24), maxHeight);

/**
 * HTML output of code, which is hostile. It is shown without its scripts until the reader asks to run them. Then it
 * gets a document with an origin of its own that loads nothing; but a script may leak the data that it received by
 * WebRTC, which no policy forbids.
 */
export const HtmlFrame = ({ html, title }: { html: string; title: string }) => {
  const isDark = useIsDark();
  const [isRunning, setRunning] = useState(false);
  const { html: still, hasScripts } = useMemo(() => withoutScripts(html), [html]);
  // Other colours need a new document.
  if (isRunning) return <ScriptFrame key={`${isDark}`} html={html} isDark={isDark} title={title} />;
  return (
    <>
      <StillFrame html={still} isDark={isDark} title={title} />
      {hasScripts && (
        <p className="frame-note">
          This output has scripts. They could send what it shows elsewhere.
          <button type="button" className="button" onClick={() => setRunning(true)}>
            Run scripts
          </button>
        </p>
      )}
    </>
  );
};

interface FrameProps {
  html: string;
  isDark: boolean;
  title: string;
}

/** In the page's origin, so that its height can be read; no script runs in it. */
const StillFrame = ({ html, isDark, title }: FrameProps) => {
  const [height, setHeight] = useState<number | null>(null);
  const [body, setBody] = useState<HTMLElement | null>(null);
  const document = useMemo(() => documentOf(html, isDark), [html, isDark]);
  useEffect(() => {
    if (body === null) return;
    const watcher = new ResizeObserver(() => {
      const bar = body.scrollWidth > body.clientWidth ? 18 : 0;
      setHeight(Math.ceil(body.getBoundingClientRect().height) + bar);
    });
    watcher.observe(body);
    return () => watcher.disconnect();
  }, [body]);
  return (
    <iframe
      className="html-frame"
      srcDoc={document}
      sandbox="allow-same-origin"
      title={title}
      style={{ height: heightOf(height) }}
      onLoad={(event) => setBody(event.currentTarget.contentDocument?.body ?? null)}
    />
  );
};

const ScriptFrame = ({ html, isDark, title }: FrameProps) => {
  const frame = useRef<HTMLIFrameElement>(null);
  const content = useMemo(() => ({ html, style: frameStyle(isDark) }), [html, isDark]);
  const { height } = useFrame(frame, content);
  return (
    <iframe
      ref={frame}
      className="html-frame"
      src="/frame.html"
      sandbox="allow-scripts"
      title={title}
      style={{ height: heightOf(height) }}
    />
  );
};
