import { type CSSProperties, memo } from 'react';
import { parseAnsi, type Span } from './ansi.ts';

/**
 * Adjusts colours to the page's background: a program chooses them for a terminal with another one. Text with a
 * background of its own gets the page's background as its colour.
 */
const coloursOf = ({ color, background, isDim }: Span): CSSProperties => {
  if (background !== null) return { color: 'var(--ground)', background: readable(background) };
  if (color !== null) return { color: readable(color) };
  return isDim ? { color: 'var(--text-soft)' } : {};
};

const readable = (color: string): string =>
  color.startsWith('var(')
    ? color
    : `light-dark(oklch(from ${color} min(l, 0.47) c h), oklch(from ${color} max(l, 0.75) c h))`;

const styleOf = (span: Span): CSSProperties => ({
  ...coloursOf(span),
  ...(span.isBold && { fontWeight: 700 }),
  ...(span.isItalic && { fontStyle: 'italic' }),
  ...(span.isUnderlined && { textDecoration: 'underline' }),
});

/** Text output of a program, with its colours. */
export const TerminalText = memo(({ text }: { text: string }) => {
  const spans = parseAnsi(text);
  return spans.map((span, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: text is only ever added to.
    <span key={index} style={styleOf(span)}>
      {span.text}
    </span>
  ));
});
