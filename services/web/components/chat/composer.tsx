import { type ClipboardEvent, type KeyboardEvent, type RefObject, useEffect, useRef } from 'react';
import type { Model } from '#contract';
import { useStore } from '../../state/store.ts';
import type { Workspace } from '../../state/workspace.ts';
import { Icon } from '../controls/icon.tsx';
import { UploadList } from '../controls/upload-list.tsx';
import { ModelPicker } from './model-picker.tsx';

export interface ComposerProps {
  /** The text field. */
  ref: RefObject<HTMLTextAreaElement | null>;
  workspace: Workspace;
  models: readonly Model[];
  canAsk: boolean;
  /** Whether the chat and its options are still unknown. */
  isLoading: boolean;
  isAnswering: boolean;
  /** Called when the reader has added or removed a key. */
  onModelKey: () => void;
}

/** The field for questions. Enter sends, Shift+Enter starts a new line, Escape stops the answer. */
export const Composer = ({
  ref: input,
  workspace,
  models,
  canAsk,
  isLoading,
  isAnswering,
  onModelKey,
}: ComposerProps) => {
  const text = useStore(workspace.text);
  const questionOptions = useStore(workspace.questionOptions);
  const uploads = useStore(workspace.uploads.store);
  const picker = useRef<HTMLInputElement>(null);
  const isUploading = uploads.some(({ done, fault }) => done === null && fault === null);
  const hasFiles = uploads.some(({ done }) => done !== null);
  const canSend = canAsk && !isLoading && !isAnswering && !isUploading && (text.trim() !== '' || hasFiles);

  // On a phone, the keyboard would cover everything.
  useEffect(() => {
    if (matchMedia('(pointer: fine)').matches) input.current?.focus();
  }, [input]);

  const send = () => {
    if (!canSend) return;
    void workspace.ask();
    input.current?.focus();
  };
  const stop = () => workspace.conversation.stop(workspace.ensureChat());

  const onKeyDown = (event: KeyboardEvent) => {
    // An input method takes these keys for itself. Safari marks the Enter that chooses a word by the code 229 only.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    if (event.key === 'Escape' && isAnswering) void stop();
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    workspace.uploads.add(event.clipboardData.files);
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <UploadList uploads={uploads} onRemove={workspace.uploads.remove} />
      <textarea
        ref={input}
        aria-label="Your message"
        placeholder={canAsk ? 'Ask anything, or drop files here' : 'There is no model to ask yet'}
        rows={1}
        value={text}
        onChange={(event) => workspace.text.set(() => event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <div className="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={(event) => {
            workspace.uploads.add(event.target.files ?? []);
            event.target.value = '';
          }}
        />
        <button
          type="button"
          className="icon-button"
          aria-label="Attach files"
          title="Attach files"
          onClick={() => picker.current?.click()}
        >
          <Icon name="attach" />
        </button>
        <ModelPicker
          models={models}
          chosen={questionOptions.model}
          isDisabled={isLoading}
          onChoose={(model) => void workspace.choose({ model })}
          onKey={onModelKey}
        />
        <label className="toggle" title="Code waits until you approve it">
          <input
            type="checkbox"
            checked={questionOptions.approval === 'always'}
            disabled={isLoading}
            onChange={(event) => void workspace.choose({ approval: event.target.checked ? 'always' : 'never' })}
          />
          <Icon name="shield" />
          <span>Ask before running</span>
        </label>
        <span className="spacer" />
        {isAnswering ? (
          <button
            type="button"
            className="send-button"
            aria-label="Stop"
            title="Stop (Escape)"
            onClick={() => void stop()}
          >
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" className="send-button" aria-label="Send" title="Send (Enter)" disabled={!canSend}>
            <Icon name="send" />
          </button>
        )}
      </div>
      <p className="visually-hidden" role="status">
        {isAnswering ? 'The answer is being generated.' : ''}
      </p>
    </form>
  );
};
