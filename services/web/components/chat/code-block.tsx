import { memo } from 'react';
import { OutputList } from '../../outputs/output-list.tsx';
import type { CodePart } from '../../state/entry.ts';
import { durationText, languageText, runText } from '../../state/wording.ts';
import { AttachmentList } from '../controls/attachment-list.tsx';
import { CodeText } from '../controls/code-text.tsx';
import { Icon } from '../controls/icon.tsx';

const stateText = ({ state, status, durationMs }: CodePart): string => {
  if (state === 'waiting') return 'Waits for you';
  if (state === 'running') return 'Running …';
  if (state === 'declined') return 'Declined';
  if (state === 'stopped') return 'Stopped';
  const time = durationMs === null ? '' : ` in ${durationText(durationMs)}`;
  return `${runText(status ?? 'ok')}${time}`;
};

/** Code that a model wrote, with its output. */
export const CodeBlock = memo(({ part, onDecide }: { part: CodePart; onDecide: (approved: boolean) => void }) => (
  // biome-ignore lint/a11y/useSemanticElements: no form fields, which a fieldset is for.
  <div className="code-block" role="group" aria-label={`${languageText(part.language)} code`} data-state={part.state}>
    <CodeText code={part.code} language={part.language} />
    {part.state === 'waiting' && (
      <fieldset className="approval">
        <legend className="visually-hidden">Run this code?</legend>
        <Icon name="shield" />
        <span>Run this code?</span>
        <button type="button" className="button primary" onClick={() => onDecide(true)}>
          Approve
        </button>
        <button type="button" className="button" onClick={() => onDecide(false)}>
          Decline
        </button>
      </fieldset>
    )}
    <OutputList outputs={part.outputs} images={part.images} isLive={part.state === 'running'} />
    <AttachmentList files={part.files} label="Files made by this code" />
    <p className="run-state" data-status={part.status ?? part.state}>
      {part.state === 'running' && <span className="spinner" aria-hidden="true" />}
      {stateText(part)}
    </p>
  </div>
));
