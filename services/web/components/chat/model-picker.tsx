import { type FormEvent, useState } from 'react';
import type { Model } from '#contract';
import { keptModelKey } from '../../api/kept.ts';
import { chosenModel, isUsable, ownKeyFor, providerOf } from '../../state/chosen-model.ts';
import { Dialog } from '../controls/dialog.tsx';
import { Icon } from '../controls/icon.tsx';

export interface ModelPickerProps {
  models: readonly Model[];
  /** Null for the default model. */
  chosen: string | null;
  isDisabled: boolean;
  onChoose: (model: string | null) => void;
  /** Called when a key was added or removed. */
  onKey: () => void;
}

const ModelKey = ({ provider, onClose }: { provider: string; onClose: () => void }) => {
  const kept = keptModelKey(provider);
  const [key, setKey] = useState(kept.get() ?? '');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    kept.set(key.trim());
    onClose();
  };
  return (
    <Dialog title={`Your own key for ${provider}`} onClose={onClose}>
      <form onSubmit={submit}>
        <p>It is kept in this tab, sent with your questions to these models, and never stored.</p>
        <label htmlFor="model-key">Key</label>
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

/** Chooses the model, and the key for it. */
export const ModelPicker = ({ models, chosen, isDisabled, onChoose, onKey }: ModelPickerProps) => {
  const [isOpen, setOpen] = useState(false);
  const current = chosenModel(models, chosen);
  if (current === undefined) return null;
  const hasKey = ownKeyFor(current) !== null;
  return (
    <>
      <select
        className="model-select"
        aria-label="Model"
        value={current.id}
        disabled={isDisabled}
        onChange={(event) => onChoose(event.target.value)}
      >
        {models.map((model) => (
          <option key={model.id} value={model.id}>
            {model.id.slice(model.id.indexOf('/') + 1)}
            {isUsable(model) ? '' : ' (needs your key)'}
          </option>
        ))}
      </select>
      {(current.needsKey || hasKey) && (
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
          provider={providerOf(current.id)}
          onClose={() => {
            setOpen(false);
            onKey();
          }}
        />
      )}
    </>
  );
};
