import { Fragment, memo } from 'react';
import type { Image } from '#contract';
import { Boundary } from '../components/controls/boundary.tsx';
import { Picture } from '../components/controls/picture.tsx';
import { cutAt, maxFirst, type Output, type Outputs } from '../state/outputs.ts';
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

interface OneOutputProps {
  output: Output;
  /** The image at this place. */
  image: Image | undefined;
  isLive: boolean;
}

const OneOutput = memo(({ output, image, isLive }: OneOutputProps) => {
  switch (output.type) {
    case 'stream':
      return <StreamOutput output={output} isLive={isLive} />;
    case 'rich':
      return <RichOutput mime={output.mime} />;
    case 'image':
      return (
        image && (
          <Picture
            url={image.url}
            name={image.name}
            alt={`Picture ${output.index + 1} made by the code`}
            chartUrl={image.chartUrl}
          />
        )
      );
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

export interface OutputListProps {
  outputs: Outputs;
  /** The images of the places. */
  images?: readonly Image[];
  isLive: boolean;
}

/** The output of code, in order. */
export const OutputList = ({ outputs: { items, leftOut }, images = [], isLive }: OutputListProps) =>
  items.length === 0 ? null : (
    <div className="outputs">
      {items.map((output, index) => (
        // The number of the output in its run.
        <Fragment key={index < maxFirst ? index : index + leftOut}>
          {index === maxFirst && leftOut > 0 && (
            <p className="left-out">… {countText(leftOut)} outputs are left out here …</p>
          )}
          <Boundary value={output} fallback={<p className="left-out">This output cannot be shown.</p>}>
            <OneOutput
              output={output}
              image={output.type === 'image' ? images[output.index] : undefined}
              isLive={isLive && index === items.length - 1}
            />
          </Boundary>
        </Fragment>
      ))}
    </div>
  );
