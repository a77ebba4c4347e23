import { type FormEvent, useState } from 'react';
import { Logo } from './controls/logo.tsx';

/** Asks for a CodeBox key, which is kept until the tab is closed. */
export const Login = ({ wasRefused, onEnter }: { wasRefused: boolean; onEnter: (key: string) => void }) => {
  const [key, setKey] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() !== '') onEnter(key.trim());
  };
  return (
    <main className="centered">
      <form className="card login" onSubmit={submit}>
        <Logo />
        <h1>Enter with your key</h1>
        <p>This CodeBox is not open to everybody. Your key stays in this tab and is forgotten when you close it.</p>
        <label htmlFor="key">CodeBox key</label>
        <input
          id="key"
          type="password"
          autoComplete="off"
          spellCheck={false}
          placeholder="cbx_…"
          value={key}
          aria-describedby={wasRefused ? 'key-fault' : undefined}
          aria-invalid={wasRefused}
          onChange={(event) => setKey(event.target.value)}
          // biome-ignore lint/a11y/noAutofocus: there is nothing else to do here.
          autoFocus
        />
        {wasRefused && (
          <p id="key-fault" role="alert" className="fault-text">
            This key is not valid.
          </p>
        )}
        <button type="submit" className="button primary" disabled={key.trim() === ''}>
          Enter
        </button>
      </form>
    </main>
  );
};
