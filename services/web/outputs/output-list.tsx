import { memo } from 'react';
import { cutAt, type Output, type Outputs } from '../state/outputs.ts';
import { bytesText, countText } from '../state/wording.ts';
import { Folded } from './folded.tsx';
import { RichOutput } from './rich-output.tsx';
import { TerminalText } from './terminal-text.tsx';

type Stream = Extract<Output, { type: 'stream' }>;
type Failure = Extract<Output, { type: 'error' }>;

const StreamOutput = ({ output, isLive }: { output: Stream; isLive: boolean }) => {
  const cut = cutAt(output);
  return (
    <Folded isTail={isLive} label={output.name === 'stderr' ? 'Error output' : 'Printed output'}>
      <pre className="output-text" data-stream={output.name}>
        <TerminalText text={cut === null ? output.text : output.text.slice(0, cut)} />
        {cut !== null && (
          <>
            <span className="left-out">{`\n… ${countText(output.droppedCharacters)} characters are left out here …\n`}</span>
            <TerminalText text={output.text.slice(cut)} />
          </>
        )}
      </pre>
    </Folded>
  );
};

const FailureOutput = ({ output }: { output: Failure }) => (
  <details className="failure">
    <summary>
      <strong>{output.name}</strong>
      {output.value !== '' && <span className="failure-value">{output.value}</span>}
    </summary>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard. */}
    <pre className="output-text" tabIndex={0}>
      <TerminalText text={output.traceback || 'There is no traceback.'} />
    </pre>
  </details>
);

const OneOutput = memo(({ output, isLive }: { output: Output; isLive: boolean }) => {
  switch (output.type) {
    case 'stream':
      return <StreamOutput output={output} isLive={isLive} />;
    case 'rich':
      return <RichOutput mime={output.mime} />;
    case 'error':
      return <FailureOutput output={output} />;
    case 'truncated':
      return <p className="left-out">… {bytesText(output.droppedBytes)} of output are left out here …</p>;
    case 'install':
      return (
        <details className="installation">
          <summary>{output.isDone ? 'Packages were installed' : 'Packages could not be installed'}</summary>
          <pre className="output-text">{output.text}</pre>
        </details>
      );
  }
});

/** What code has put out, in its order. */
export const OutputList = ({ outputs, isLive }: { outputs: Outputs; isLive: boolean }) =>
  outputs.items.length === 0 ? null : (
    <div className="outputs">
      {outputs.items.map((output, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: outputs are only ever added to.
        <OneOutput key={index} output={output} isLive={isLive && index === outputs.items.length - 1} />
      ))}
    </div>
  );
