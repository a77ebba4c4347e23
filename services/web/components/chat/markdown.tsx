import { type MouseEvent, memo, type ReactNode, useEffect, useState } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import type { PluggableList } from 'unified';
import { Formula } from '../../math/formula.tsx';
import { withMathMarks } from '../../math/marks.ts';
import { Boundary } from '../controls/boundary.tsx';
import { CodeText } from '../controls/code-text.tsx';
import { splitFinished } from './finished.ts';

const plugins = [remarkGfm];

/** Whether the URL is a file of the chat. */
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

/** Scrolls to a footnote and back within the text: the URL of the page names a chat and must not change. */
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
    // A refused URL is empty.
    if (href === '') return children;
    if (href.startsWith('#'))
      return (
        <a {...rest} href={href} onClick={goWithin}>
          {children}
        </a>
      );
    return <Outward href={href}>{children}</Outward>;
  },
  // A picture from another server would reveal the reader to it, so it becomes a link.
  img: ({ src, alt }) => {
    const url = typeof src === 'string' ? src : '';
    if (isOwn(url)) return <img src={url} alt={alt ?? ''} />;
    return url === '' ? alt : <Outward href={url}>{alt || url}</Outward>;
  },
  // Check boxes of task lists; there are no other inputs.
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
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element has to be reachable by keyboard.
    <div className="table-frame" role="group" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
};

/** The plugins for formulas, loaded with the first text that may contain one; empty until then. */
const useMathPlugins = (isNeeded: boolean): PluggableList => {
  const [loaded, setLoaded] = useState<PluggableList>([]);
  useEffect(() => {
    if (isNeeded)
      import('../../math/plugins.ts').then(
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

/**
 * Markdown of a model, which is hostile: its HTML is ignored. While text arrives, finished paragraphs are not drawn
 * again.
 */
export const Markdown = memo(({ text, isLive = false }: { text: string; isLive?: boolean }) => {
  const [finished, rest] = isLive ? splitFinished(text) : [text, ''];
  return (
    <div className="markdown">
      {/* Markdown that is nested too deeply overflows the stack. */}
      <Boundary fallback={<pre className="output-text">{text}</pre>}>
        <Block text={finished} />
        {rest !== '' && <Block text={rest} />}
      </Boundary>
    </div>
  );
});
