import { memo, useEffect, useState } from 'react';
import type { Entry, EntryPart } from '../../state/entry.ts';
import { AttachmentList } from '../controls/attachment-list.tsx';
import { Icon } from '../controls/icon.tsx';
import { CodeBlock } from './code-block.tsx';
import { Markdown } from './markdown.tsx';

/** How long nothing may arrive before the reader is informed. */
const longMs = 15_000;

export interface MessageProps {
  entry: Entry;
  onDecide: (call: string, approved: boolean) => void;
}

const PartView = ({
  part,
  isLive,
  onDecide,
}: {
  part: EntryPart;
  isLive: boolean;
  onDecide: MessageProps['onDecide'];
}) => {
  switch (part.type) {
    case 'text':
      return <Markdown text={part.text} isLive={isLive} />;
    case 'code':
      return <CodeBlock part={part} onDecide={(approved) => onDecide(part.call, approved)} />;
    case 'notice':
      return (
        <p className="notice" data-kind={part.kind}>
          <Icon name={part.kind === 'limit' ? 'warning' : 'info'} />
          <span>{part.text}</span>
        </p>
      );
    case 'tool':
      return (
        <details className="tool" data-ok={part.ok}>
          <summary>
            {part.name.replaceAll('_', ' ')} {part.ok ? '' : 'failed'}
          </summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard. */}
          <pre className="output-text" tabIndex={0}>
            {part.result}
          </pre>
        </details>
      );
  }
};

const ends: Partial<Record<Entry['status'], string>> = {
  stopped: 'You stopped this answer.',
  limit: 'This answer was ended because it did not finish by itself.',
};

/** Shows that nothing arrives at the moment, with a text if that takes long. */
const Thinking = () => {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), longMs);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p className="thinking">
      <span className="visually-hidden">The answer is being generated</span>
      <span className="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {isLong && <span role="status">This takes longer than usual …</span>}
    </p>
  );
};

/** One question or answer. */
export const MessageView = memo(({ entry, onDecide }: MessageProps) => {
  if (entry.role === 'user')
    return (
      <article className="message question" aria-label="You">
        {entry.content !== '' && <p className="question-text">{entry.content}</p>}
        <AttachmentList files={entry.files} label="Files of this question" />
      </article>
    );
  const isLive = entry.status === 'running';
  const shown = new Set(
    entry.parts.flatMap((part) => (part.type === 'code' ? part.files.map(({ path }) => path) : [])),
  );
  const last = entry.parts.at(-1);
  const isThinking = isLive && (last === undefined || (last.type === 'code' && last.state === 'done'));
  return (
    <article className="message answer" aria-label="CodeBox" aria-busy={isLive}>
      {entry.parts.map((part, index) => (
        <PartView
          // biome-ignore lint/suspicious/noArrayIndexKey: parts are only ever added to.
          key={index}
          part={part}
          isLive={isLive && part === last}
          onDecide={onDecide}
        />
      ))}
      {isThinking && <Thinking key={entry.parts.length} />}
      <AttachmentList files={entry.files.filter(({ path }) => !shown.has(path))} label="Files of this answer" />
      {entry.error !== null && (
        <p className="notice" data-kind="error" role="alert">
          <Icon name="warning" />
          <span>{entry.error.detail}</span>
        </p>
      )}
      {entry.error === null && ends[entry.status] !== undefined && <p className="ending">{ends[entry.status]}</p>}
    </article>
  );
});
