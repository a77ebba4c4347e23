import { type FormEvent, useState } from 'react';
import type { Model } from '#contract';
import { keptModelKey } from '../api/kept.ts';
import { Dialog } from './dialog.tsx';
import { Icon } from './icon.tsx';

export interface ModelPickerProps {
  models: readonly Model[];
  /** Null for the default one. */
  chosen: string | null;
  onChoose: (model: string | null) => void;
  /** A key was given or taken away. */
  onKey: () => void;
}

const ModelKey = ({ onClose }: { onClose: () => void }) => {
  const [key, setKey] = useState(keptModelKey.get() ?? '');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    keptModelKey.set(key.trim());
    onClose();
  };
  return (
    <Dialog title="Your own key for a model" onClose={onClose}>
      <form onSubmit={submit}>
        <p>It is kept in this tab, sent with your questions, and never stored.</p>
        <label htmlFor="model-key">Key of the model’s provider</label>
        <input
          id="model-key"
          type="password"
          autoComplete="off"
          spellCheck={false}
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <div className="dialog-actions">
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
};

/** Which model is asked, and with whose key. */
export const ModelPicker = ({ models, chosen, onChoose, onKey }: ModelPickerProps) => {
  const [isOpen, setOpen] = useState(false);
  if (models.length === 0) return null;
  const current = models.find(({ id, isDefault }) => (chosen === null ? isDefault : id === chosen)) ?? models[0];
  const hasKey = keptModelKey.get() !== null;
  return (
    <>
      <select
        className="model-select"
        aria-label="Model"
        value={current?.id}
        onChange={(event) => onChoose(event.target.value)}
      >
        {models.map(({ id, needsKey }) => (
          <option key={id} value={id}>
            {id.slice(id.indexOf('/') + 1)}
            {needsKey && !hasKey ? ' (needs your key)' : ''}
          </option>
        ))}
      </select>
      {(current?.needsKey || hasKey) && (
        <button
          type="button"
          className="icon-button"
          data-wanted={!hasKey}
          aria-label="Your own key for a model"
          title="Your own key for a model"
          onClick={() => setOpen(true)}
        >
          <Icon name="key" />
        </button>
      )}
      {isOpen && (
        <ModelKey
          onClose={() => {
            setOpen(false);
            onKey();
          }}
        />
      )}
    </>
  );
};
