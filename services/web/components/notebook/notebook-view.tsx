import { useEffect, useRef } from 'react';
import type { AgentInfo } from '#contract';
import { useStore } from '../../state/store.ts';
import { languageText } from '../../state/wording.ts';
import type { Workspace } from '../../state/workspace.ts';
import { Icon } from '../controls/icon.tsx';
import { CellView } from './cell.tsx';

const usual = ['python', 'javascript', 'bash'];

/** Cells of code that the reader runs, without a model. */
export const NotebookView = ({ workspace, info }: { workspace: Workspace; info: AgentInfo | null }) => {
  const cells = useStore(workspace.notebook.store);
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => workspace.notebook.open(), [workspace]);
  const languages = info === null || info.languages.length === 0 ? usual : info.languages;

  const focusCell = (index: number) =>
    requestAnimationFrame(() => list.current?.querySelectorAll('textarea').item(index)?.focus());
  const add = (language: string) => {
    workspace.notebook.add(language);
    focusCell(cells.length);
  };
  const runAndGoOn = (index: number, language: string) => {
    if (index === cells.length - 1) workspace.notebook.add(language);
    focusCell(index + 1);
  };

  return (
    <div className="notebook">
      <div className="column">
        {info !== null && !info.hasModel && (
          <p className="notice" data-kind="hint">
            <Icon name="info" />
            <span>{info.hint ?? 'No model is configured.'} Until then, code is run here by hand.</span>
          </p>
        )}
        <ol className="cells" ref={list} aria-label="Cells">
          {cells.map((cell, index) => (
            <CellView
              key={cell.id}
              cell={cell}
              number={index + 1}
              languages={languages}
              notebook={workspace.notebook}
              onNext={() => runAndGoOn(index, cell.language)}
            />
          ))}
        </ol>
        <fieldset className="add-cell">
          <legend className="visually-hidden">Add a cell</legend>
          {languages.map((language) => (
            <button key={language} type="button" className="quiet-button" onClick={() => add(language)}>
              <Icon name="plus" /> {languageText(language)}
            </button>
          ))}
        </fieldset>
      </div>
    </div>
  );
};
