import { lazy, Suspense, useState } from 'react';
import type { AgentClient } from '../../api/agent-client.ts';
import type { Workspace } from '../../state/workspace.ts';

const loadTerminal = () => lazy(() => import('./terminal.tsx').then(({ Terminal }) => ({ default: Terminal })));

/** A shell in the chat's computer. The terminal emulator is loaded when it is first shown. */
export const TerminalView = ({ client, workspace }: { client: AgentClient; workspace: Workspace }) => {
  // What could not be loaded is requested again when the view is opened again.
  const [Terminal] = useState(loadTerminal);
  const [round, setRound] = useState(0);
  const [end, setEnd] = useState<string | null>(null);
  return (
    <div className="terminal-view">
      <Suspense fallback={<p className="hint">Loading …</p>}>
        <Terminal key={round} client={client} workspace={workspace} onEnd={setEnd} />
      </Suspense>
      {end !== null && (
        <div className="terminal-end" role="status">
          <span>{end}</span>
          <button
            type="button"
            className="button primary"
            onClick={() => {
              setEnd(null);
              setRound(round + 1);
            }}
          >
            Connect again
          </button>
        </div>
      )}
    </div>
  );
};
