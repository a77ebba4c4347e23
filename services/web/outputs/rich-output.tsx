import { useMemo } from 'react';
import { chartIn } from '../chart/chart.ts';
import { Markdown } from '../components/chat/markdown.tsx';
import { Picture } from '../components/controls/picture.tsx';
import { Formula } from '../math/formula.tsx';
import { ChartFrame } from './chart-frame.tsx';
import { Folded } from './folded.tsx';
import { HtmlFrame } from './html-frame.tsx';
import { TerminalText } from './terminal-text.tsx';

const textOf = (value: unknown): string | null => {
  if (typeof value === 'string') return value;
  return Array.isArray(value) && value.every((part) => typeof part === 'string') ? value.join('') : null;
};

const bitmaps = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;

/** A picture from a box: it gets a URL of its own, so that its markup is never part of the page. */
const pictureOf = (mime: Record<string, unknown>): { url: string; name: string } | null => {
  for (const type of bitmaps) {
    const data = textOf(mime[type]);
    if (data !== null)
      return { url: `data:${type};base64,${data.replace(/\s/g, '')}`, name: `image.${type.slice('image/'.length)}` };
  }
  const svg = textOf(mime['image/svg+xml']);
  return svg === null
    ? null
    : { url: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, name: 'image.svg' };
};

/** A value in the richest form that can be shown safely. */
export const RichOutput = ({ mime }: { mime: Record<string, unknown> }) => {
  const chart = useMemo(() => chartIn(mime), [mime]);
  if (chart !== null) return <ChartFrame chart={chart} />;
  const html = textOf(mime['text/html']);
  if (html !== null) return <HtmlFrame html={html} key={html} title="Output of the code" />;
  const picture = pictureOf(mime);
  if (picture !== null) return <Picture {...picture} alt="Picture made by the code" chartUrl={null} />;
  const markdown = textOf(mime['text/markdown']);
  if (markdown !== null) return <Markdown text={markdown} />;
  const latex = textOf(mime['text/latex']);
  if (latex !== null) return <Formula tex={latex.trim().replace(/^(\$\$?)([^$]*)\1$/, '$2')} isBlock />;
  const json = mime['application/json'];
  const text =
    (json === undefined ? textOf(mime['text/plain']) : JSON.stringify(json, undefined, 2)) ??
    `A value that cannot be shown here (${Object.keys(mime).join(', ')}).`;
  return (
    <Folded label="Value">
      <pre className="output-text">
        <TerminalText text={text} />
      </pre>
    </Folded>
  );
};
