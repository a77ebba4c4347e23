import { useState } from 'react';
import { Icon } from './icon.tsx';

/** Copies text and confirms it for a moment. */
export const CopyButton = ({ text }: { text: string }) => {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    // Without a secure context there is no clipboard: the code can still be selected.
    await navigator.clipboard?.writeText(text).then(
      () => setDone(true),
      () => {},
    );
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" className="quiet-button" onClick={() => void copy()}>
      <Icon name={isDone ? 'check' : 'copy'} /> {isDone ? 'Copied' : 'Copy'}
    </button>
  );
};
