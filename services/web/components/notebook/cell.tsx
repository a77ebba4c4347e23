import { type KeyboardEvent, memo } from 'react';
import { OutputList } from '../../outputs/output-list.tsx';
import { type Cell, isBusy, type Notebook } from '../../state/notebook.ts';
import { durationText, languageText, runText } from '../../state/wording.ts';
import { Tokens } from '../controls/code-text.tsx';
import { Icon } from '../controls/icon.tsx';
import { CellInput } from './cell-input.tsx';

export interface CellProps {
  cell: Cell;
  number: number;
  languages: readonly string[];
  notebook: Notebook;
  /** Moves on to the next cell. */
  onNext: () => void;
}

const stateText = ({ state, status, durationMs, fault }: Cell): string => {
  if (state === 'waiting') return 'Waiting for the cell before it …';
  if (state === 'reading') return 'Reading its output …';
  if (state === 'starting') return 'Waiting for the computer …';
  if (state === 'running') return 'Running …';
  if (state === 'idle' || fault !== null) return '';
  return `${runText(status ?? 'lost')}${durationMs === null ? '' : ` in ${durationText(durationMs)}`}`;
};

/** One cell: its code and its output. Shift+Enter runs it and moves on, Ctrl+Enter runs it. */
export const CellView = memo(({ cell, number, languages, notebook, onNext }: CellProps) => {
  const isRunning = isBusy(cell);
  const run = () => void notebook.run(cell.id);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && isRunning) void notebook.interrupt(cell.id);
    if (event.key !== 'Enter' || !(event.shiftKey || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
    if (event.shiftKey) onNext();
  };
  return (
    <li className="cell" data-state={cell.state}>
      <div className="cell-bar">
        {isRunning ? (
          <button
            type="button"
            className="run-button"
            aria-label={`Interrupt cell ${number}`}
            title="Interrupt (Escape)"
            disabled={cell.state === 'starting' || cell.state === 'reading'}
            onClick={() => void notebook.interrupt(cell.id)}
          >
            <Icon name="stop" />
          </button>
        ) : (
          <button
            type="button"
            className="run-button"
            aria-label={`Run cell ${number}`}
            title="Run (Shift+Enter)"
            disabled={cell.code.trim() === ''}
            onClick={run}
          >
            <Icon name="play" />
          </button>
        )}
        <select
          aria-label={`Language of cell ${number}`}
          value={cell.language}
          disabled={isRunning}
          onChange={(event) => notebook.edit(cell.id, { language: event.target.value })}
        >
          {languages.map((language) => (
            <option key={language} value={language}>
              {languageText(language)}
            </option>
          ))}
        </select>
        <span className="run-state" role="status" data-status={cell.status ?? cell.state}>
          {isRunning && <span className="spinner" aria-hidden="true" />}
          {stateText(cell)}
        </span>
        <span className="spacer" />
        <button
          type="button"
          className="icon-button"
          aria-label={`Remove cell ${number}`}
          title="Remove"
          disabled={isRunning}
          onClick={() => notebook.remove(cell.id)}
        >
          <Icon name="trash" />
        </button>
      </div>
      <div className="editor">
        <pre aria-hidden="true">
          <Tokens code={cell.code} language={cell.language} />
          {'\n'}
        </pre>
        <textarea
          aria-label={`Code of cell ${number}`}
          placeholder="Code. Shift+Enter runs it."
          rows={1}
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          readOnly={isRunning}
          value={cell.code}
          onChange={(event) => notebook.edit(cell.id, { code: event.target.value })}
          onKeyDown={onKeyDown}
        />
      </div>
      <OutputList outputs={cell.outputs} isLive={isRunning} />
      {cell.prompt !== null && (
        <CellInput prompt={cell.prompt} onAnswer={(text) => void notebook.answer(cell.id, text)} />
      )}
      {cell.cause !== null && <p className="cause">{cell.cause}</p>}
      {cell.fault !== null && (
        <p className="notice" data-kind="error" role="alert">
          <Icon name="warning" />
          <span>{cell.fault}</span>
        </p>
      )}
    </li>
  );
});
