import { type CSSProperties, memo } from 'react';
import { parseAnsi, type Span } from './ansi.ts';

const styleOf = (span: Span): CSSProperties => ({
  ...(span.color !== null && { color: span.color }),
  ...(span.background !== null && { background: span.background }),
  ...(span.isBold && { fontWeight: 700 }),
  ...(span.isDim && { opacity: 0.75 }),
  ...(span.isItalic && { fontStyle: 'italic' }),
  ...(span.isUnderlined && { textDecoration: 'underline' }),
});

/** Text that a program has printed, with its colours. */
export const TerminalText = memo(({ text }: { text: string }) => {
  const spans = parseAnsi(text);
  return spans.map((span, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: text is only ever added to.
    <span key={index} style={styleOf(span)}>
      {span.text}
    </span>
  ));
});
