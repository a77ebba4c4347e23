import { useEffect, useRef, useState } from 'react';
import type { AgentClient } from '../api/agent-client.ts';
import { goTo, useRoute, type View } from '../state/route.ts';
import type { Session } from '../state/session.ts';
import { useStore } from '../state/store.ts';
import { chatTitle } from '../state/wording.ts';
import { ChatView } from './chat/chat-view.tsx';
import { Boundary } from './controls/boundary.tsx';
import { Toast } from './controls/toast.tsx';
import { FilesPanel } from './files-panel.tsx';
import { Header } from './header.tsx';
import { NotebookView } from './notebook/notebook-view.tsx';
import { Sidebar } from './sidebar.tsx';
import { TerminalView } from './terminal/terminal-view.tsx';

export interface ShellProps {
  client: AgentClient;
  session: Session;
  /** Forgets the key; null without one. */
  onLeave: (() => void) | null;
}

/** Shown instead of a view that failed: its code is gone from the server after an upgrade, for example. */
const BrokenView = () => (
  <div className="centered" role="alert">
    <p>This view cannot be shown: CodeBox may have been upgraded, or could not be reached.</p>
    <button type="button" className="button primary" onClick={() => location.reload()}>
      Reload
    </button>
  </div>
);

/** The frame of the page: chats on the left, the chosen one in the middle, its files on the right. */
export const Shell = ({ client, session, onLeave }: ShellProps) => {
  const { info, models, fault } = useStore(session.store);
  const isLost = useStore(session.isLost);
  const route = useRoute();
  const workspace = session.workspace(route.chat);
  const chat = useStore(workspace.chat);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isFilesOpen, setFilesOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  // Without a model there is nobody to chat with, so the page opens with the notebook.
  const view: View = route.view ?? (info !== null && !info.hasModel ? 'notebook' : 'chat');

  useEffect(() => {
    document.title = chat === null ? 'CodeBox' : `${chatTitle(chat)} · CodeBox`;
  }, [chat]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: navigating closes the drawers.
  useEffect(() => setMenuOpen(false), [route.chat, route.view]);
  useEffect(() => {
    if (!isMenuOpen) return;
    const close = ({ key }: KeyboardEvent) => key === 'Escape' && setMenuOpen(false);
    addEventListener('keydown', close);
    return () => removeEventListener('keydown', close);
  }, [isMenuOpen]);

  return (
    <div className="shell" data-menu={isMenuOpen} data-files={isFilesOpen}>
      <button type="button" className="skip-link" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <Sidebar session={session} current={route.chat} onClose={() => setMenuOpen(false)} onLeave={onLeave} />
      {isMenuOpen && (
        <button
          type="button"
          className="backdrop"
          aria-label="Close the list of chats"
          onClick={() => setMenuOpen(false)}
        />
      )}
      <main className="main" ref={main} tabIndex={-1}>
        <Header
          title={chat === null ? 'New chat' : chatTitle(chat)}
          view={view}
          isFilesOpen={isFilesOpen}
          isMenuOpen={isMenuOpen}
          onView={(next) => goTo({ chat: route.chat, view: next })}
          onMenu={() => setMenuOpen(!isMenuOpen)}
          onFiles={() => setFilesOpen(!isFilesOpen)}
        />
        {isLost && (
          <p className="connection" role="status">
            <span className="spinner" aria-hidden="true" />
            Connection lost. Trying again …
          </p>
        )}
        <Boundary key={`${workspace.key} ${view}`} fallback={<BrokenView />}>
          {view === 'chat' && (
            <ChatView
              workspace={workspace}
              info={info}
              models={models}
              onNotebook={() => goTo({ chat: route.chat, view: 'notebook' })}
            />
          )}
          {view === 'notebook' && <NotebookView workspace={workspace} info={info} />}
          {view === 'terminal' && <TerminalView client={client} workspace={workspace} />}
        </Boundary>
      </main>
      {isFilesOpen && (
        <FilesPanel
          key={`files-${workspace.key}`}
          client={client}
          workspace={workspace}
          onClose={() => setFilesOpen(false)}
        />
      )}
      {fault !== null && <Toast text={fault} onClose={session.dismiss} />}
    </div>
  );
};
