import { type MouseEvent, memo, type ReactNode, useEffect, useState } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import type { PluggableList } from 'unified';
import { Formula } from '../math/formula.tsx';
import { withMathMarks } from '../math/marks.ts';
import { CodeText } from './code-text.tsx';
import { splitFinished } from './finished.ts';

const plugins = [remarkGfm];

/** Files of the chat; everything else is elsewhere. */
const isOwn = (url: string): boolean => url.startsWith('/v1/files/');

const languageOf = (className: string | undefined): string => /language-([\w-]+)/.exec(className ?? '')?.[1] ?? 'text';

const Outward = ({ href, children }: { href: string; children: ReactNode }) =>
  isOwn(href) ? (
    <a href={href} download>
      {children}
    </a>
  ) : (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );

/** To a footnote and back, in the same text: the address of the page names a chat, so it stays. */
const goWithin = (event: MouseEvent<HTMLAnchorElement>) => {
  event.preventDefault();
  const link = event.currentTarget;
  const id = decodeURIComponent(link.hash.slice(1));
  const target = link.closest('.markdown')?.querySelector<HTMLElement>(`#${CSS.escape(id)}`);
  target?.scrollIntoView({ block: 'center' });
  const next = target?.matches('a') ? target : target?.querySelector<HTMLElement>('a');
  next?.focus({ preventScroll: true });
};

const components: Components = {
  a: ({ node: _, href = '', children, ...rest }) => {
    // What is refused as an address has none left.
    if (href === '') return children;
    if (href.startsWith('#'))
      return (
        <a {...rest} href={href} onClick={goWithin}>
          {children}
        </a>
      );
    return <Outward href={href}>{children}</Outward>;
  },
  // A picture from elsewhere would tell its server who reads: it is a link.
  img: ({ src, alt }) => {
    const url = typeof src === 'string' ? src : '';
    if (isOwn(url)) return <img src={url} alt={alt ?? ''} />;
    return url === '' ? alt : <Outward href={url}>{alt || url}</Outward>;
  },
  // Of a list of tasks; nothing else becomes one.
  input: ({ checked }) => <input type="checkbox" checked={checked} disabled aria-label={checked ? 'Done' : 'To do'} />,
  pre: ({ children }) => children,
  code: ({ className, children }) => {
    const text = String(children);
    if (/\blanguage-math\b/.test(className ?? ''))
      return <Formula tex={text.trim()} isBlock={!className?.includes('math-inline')} />;
    const isBlock = className !== undefined || text.includes('\n');
    return isBlock ? (
      <CodeText code={text.replace(/\n$/, '')} language={languageOf(className)} />
    ) : (
      <code>{children}</code>
    );
  },
  table: ({ children }) => (
    // biome-ignore lint/a11y/useSemanticElements: no form fields, which a fieldset is for.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard.
    <div className="table-frame" role="group" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
};

/** What reads formulas, loaded with the first text that may have one; none until it is there. */
const useMathPlugins = (isNeeded: boolean): PluggableList => {
  const [loaded, setLoaded] = useState<PluggableList>([]);
  useEffect(() => {
    if (isNeeded)
      import('../math/plugins.ts').then(
        ({ mathPlugins }) => setLoaded(mathPlugins),
        () => {},
      );
  }, [isNeeded]);
  return loaded;
};

const Block = memo(({ text }: { text: string }) => {
  const marked = withMathMarks(text);
  const math = useMathPlugins(marked.includes('$$'));
  return (
    <ReactMarkdown remarkPlugins={[...plugins, ...math]} components={components} skipHtml>
      {math.length > 0 ? marked : text}
    </ReactMarkdown>
  );
});

/** Markdown of a model, which is hostile: no HTML of it is taken. While it comes, what is finished is not drawn again. */
export const Markdown = memo(({ text, isLive = false }: { text: string; isLive?: boolean }) => {
  const [finished, rest] = isLive ? splitFinished(text) : [text, ''];
  return (
    <div className="markdown">
      <Block text={finished} />
      {rest !== '' && <Block text={rest} />}
    </div>
  );
});
