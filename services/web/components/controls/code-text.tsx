import { memo, useEffect, useState } from 'react';
import type { ThemedToken } from 'shiki/core';
import { Folded } from '../../outputs/folded.tsx';
import { languageText } from '../../state/wording.ts';
import { CopyButton } from './copy-button.tsx';

/** Longer code is shown without colours. */
const maxColoured = 50_000;

/** The tokens of the code; null until they are available. */
const useTokens = (code: string, language: string): ThemedToken[][] | null => {
  const [tokens, setTokens] = useState<{ code: string; lines: ThemedToken[][] } | null>(null);
  useEffect(() => {
    if (code.length > maxColoured) return;
    let isWanted = true;
    // Code that is still arriving is coloured when it pauses; it is readable without colours.
    const timer = setTimeout(() => {
      import('./highlight.ts')
        .then(({ highlight }) => highlight(code, language))
        .then(
          (lines) => isWanted && setTokens(lines === null ? null : { code, lines }),
          () => {},
        );
    }, 30);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [code, language]);
  return tokens !== null && tokens.code === code ? tokens.lines : null;
};

/** The code itself, coloured as soon as possible. */
export const Tokens = ({ code, language }: { code: string; language: string }) => {
  const lines = useTokens(code, language);
  if (lines === null) return code;
  return lines.map((line, row) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
    <span key={row}>
      {line.map((token) => (
        <span key={token.offset} style={{ color: token.color }}>
          {token.content}
        </span>
      ))}
      {row < lines.length - 1 && '\n'}
    </span>
  ));
};

/** A block of code with its language and a copy button. */
export const CodeText = memo(({ code, language }: { code: string; language: string }) => (
  <div className="code-text">
    <div className="code-head">
      <span>{languageText(language)}</span>
      <CopyButton text={code} />
    </div>
    <Folded label="Code">
      <pre>
        <code>
          <Tokens code={code} language={language} />
        </code>
      </pre>
    </Folded>
  </div>
));
