import { Icon } from '../controls/icon.tsx';

const ideas = [
  'Plot a sine and a cosine wave, and tell what they share.',
  'Make a table of the first 200 primes and save it as primes.csv.',
  'What is in the file that I upload? Summarise it with a chart.',
];

/** Shown while there are no messages. `hint` names the settings to make when no model is configured. */
export const Welcome = ({
  hint,
  onIdea,
  onNotebook,
}: {
  hint: string | null;
  onIdea: (idea: string) => void;
  onNotebook: () => void;
}) => (
  <section className="welcome">
    <h2>{hint === null ? 'What shall we work out?' : 'There is no model to ask yet'}</h2>
    {hint === null ? (
      <>
        <p>Ask a question or bring files. The answer is worked out by running code on a computer of your own.</p>
        <ul className="ideas">
          {ideas.map((idea) => (
            <li key={idea}>
              <button type="button" className="idea" onClick={() => onIdea(idea)}>
                {idea}
              </button>
            </li>
          ))}
        </ul>
      </>
    ) : (
      <>
        <p className="hint-text">{hint}</p>
        <p>Everything else works: run code, use the terminal, bring files.</p>
        <button type="button" className="button primary" onClick={onNotebook}>
          <Icon name="notebook" /> Open the notebook
        </button>
      </>
    )}
  </section>
);
