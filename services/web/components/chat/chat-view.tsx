import { type DragEvent, useCallback, useEffect, useRef, useState } from 'react';
import type { AgentInfo, Model } from '#contract';
import { chosenModel, isUsable } from '../../state/chosen-model.ts';
import { freshenMs } from '../../state/expiry.ts';
import { useStore } from '../../state/store.ts';
import type { Workspace } from '../../state/workspace.ts';
import { Icon } from '../controls/icon.tsx';
import { Composer } from './composer.tsx';
import { MessageView } from './message.tsx';
import { Welcome } from './welcome.tsx';

/** In pixels: within `atEnd` the list counts as scrolled to its end; scrolling down to within `nearEnd` jumps there. */
const atEnd = 2;
const nearEnd = 80;

export interface ChatViewProps {
  workspace: Workspace;
  info: AgentInfo | null;
  models: readonly Model[];
  onNotebook: () => void;
}

/** Dragged text is left to the field that it is dropped into. */
const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer.types.includes('Files');

/** The conversation and the composer. */
export const ChatView = ({ workspace, info, models, onNotebook }: ChatViewProps) => {
  const { entries, isLoading, isAnswering, fault } = useStore(workspace.conversation.store);
  const list = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLTextAreaElement>(null);
  /** Whether the view follows the end, and the scroll position when that was last decided. */
  const follow = useRef({ isAtEnd: true, top: 0 });
  const [isAway, setAway] = useState(false);
  const [isDropping, setDropping] = useState(false);
  const model = chosenModel(models, useStore(workspace.questionOptions).model);
  const [, setKeys] = useState(0);

  const toEnd = useCallback(() => {
    const { current } = list;
    if (current === null) return;
    current.scrollTo({ top: current.scrollHeight });
    follow.current = { isAtEnd: true, top: current.scrollTop };
  }, []);
  // Pictures and frames grow after they were drawn: a reader at the end stays at the end.
  useEffect(() => {
    const { current } = list;
    if (!current?.firstElementChild) return;
    const watcher = new ResizeObserver(() => follow.current.isAtEnd && toEnd());
    watcher.observe(current);
    watcher.observe(current.firstElementChild);
    return () => watcher.disconnect();
  }, [toEnd]);
  useEffect(() => {
    const timer = setInterval(() => void workspace.freshen(), freshenMs);
    const comeBack = () => {
      if (document.visibilityState === 'visible') void workspace.freshen({ isBack: true });
    };
    comeBack();
    document.addEventListener('visibilitychange', comeBack);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', comeBack);
    };
  }, [workspace]);
  // A new question scrolls to the end, and so does an error.
  const count = entries.length;
  useEffect(() => {
    if (count > 0 || fault !== null) toEnd();
  }, [count, fault, toEnd]);

  const onScroll = () => {
    const { current } = list;
    if (current === null) return;
    const { isAtEnd, top } = follow.current;
    const away = current.scrollHeight - current.scrollTop - current.clientHeight;
    // Growing content moves the end before the scroll event arrives: only scrolling up leaves the end.
    const next = current.scrollTop < top ? away < atEnd : isAtEnd || away < nearEnd;
    follow.current = { isAtEnd: next, top: current.scrollTop };
    setAway(!next);
  };

  const decide = useCallback(
    async (call: string, approved: boolean) =>
      workspace.conversation.decide(await workspace.ensureChat(), call, approved),
    [workspace],
  );

  const onDragOver = (event: DragEvent) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(true);
  };
  const onDragLeave = ({ currentTarget, relatedTarget }: DragEvent) => {
    // Entering an element within is reported as leaving the one before it.
    if (!currentTarget.contains(relatedTarget as Node | null)) setDropping(false);
  };
  const onDrop = (event: DragEvent) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(false);
    workspace.uploads.add(event.dataTransfer.files);
  };

  const canAsk = info === null || (model === undefined ? info.hasModel : isUsable(model));
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping files has a button beside it.
    <div
      className="chat-view"
      data-dropping={isDropping}
      onDragOver={onDragOver}
      onDragLeave={onDragLeave}
      onDrop={onDrop}
    >
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard. */}
      <div className="messages" ref={list} role="log" aria-label="Messages" tabIndex={0} onScroll={onScroll}>
        <div className="column">
          {isLoading && fault === null && <p className="hint">Loading …</p>}
          {entries.length === 0 && !isLoading && (
            <Welcome
              hint={canAsk ? null : (info.hint ?? 'This model needs a key of your own.')}
              onIdea={(idea) => {
                workspace.text.set(() => idea);
                input.current?.focus();
              }}
              onNotebook={onNotebook}
            />
          )}
          {entries.map((entry, index) => (
            <MessageView
              // biome-ignore lint/suspicious/noArrayIndexKey: an answer gets its id only once it has begun.
              key={index}
              entry={entry}
              onDecide={decide}
            />
          ))}
          {fault !== null && (
            <p className="notice" data-kind="error" role="alert">
              <Icon name="warning" />
              <span>{fault}</span>
            </p>
          )}
        </div>
      </div>
      {isAway && (
        <button type="button" className="to-end" aria-label="To the newest message" onClick={toEnd}>
          <Icon name="down" />
        </button>
      )}
      <Composer
        ref={input}
        workspace={workspace}
        models={models}
        canAsk={canAsk}
        isLoading={isLoading}
        isAnswering={isAnswering}
        onModelKey={() => setKeys((count) => count + 1)}
      />
      {isDropping && <div className="drop-note">Drop files to put them into this chat</div>}
    </div>
  );
};
