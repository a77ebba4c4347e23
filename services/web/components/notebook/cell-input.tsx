import { type FormEvent, useState } from 'react';
import type { Cell } from '../../state/notebook.ts';

/** An input field for a program that waits for input. */
export const CellInput = ({
  prompt,
  onAnswer,
}: {
  prompt: NonNullable<Cell['prompt']>;
  onAnswer: (text: string) => void;
}) => {
  const [text, setText] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAnswer(text);
  };
  return (
    <form className="cell-input" onSubmit={submit}>
      <label>
        <span>{prompt.text || 'The code asks for input:'}</span>
        <input
          type={prompt.isPassword ? 'password' : 'text'}
          autoComplete="off"
          value={text}
          onChange={(event) => setText(event.target.value)}
          // biome-ignore lint/a11y/noAutofocus: the code that the reader has started waits for it.
          autoFocus
        />
      </label>
      <button type="submit" className="button">
        Enter
      </button>
    </form>
  );
};
