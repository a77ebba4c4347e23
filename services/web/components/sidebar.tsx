import { type FormEvent, useState } from 'react';
import type { Chat } from '#contract';
import { goTo, hashOf } from '../state/route.ts';
import type { Session } from '../state/session.ts';
import { useStore } from '../state/store.ts';
import { chatTitle } from '../state/wording.ts';
import { Confirm, Dialog } from './controls/dialog.tsx';
import { Icon } from './controls/icon.tsx';
import { Logo } from './controls/logo.tsx';
import { ThemeSwitch } from './controls/theme-switch.tsx';

const Rename = ({
  chat,
  onRename,
  onClose,
}: {
  chat: Chat;
  onRename: (title: string) => void;
  onClose: () => void;
}) => {
  const [title, setTitle] = useState(chat.title ?? '');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (title.trim() !== '') onRename(title.trim());
    onClose();
  };
  return (
    <Dialog title="Rename this chat" onClose={onClose}>
      <form onSubmit={submit}>
        <label htmlFor="chat-title">Name</label>
        <input id="chat-title" value={title} maxLength={200} onChange={(event) => setTitle(event.target.value)} />
        <div className="dialog-actions">
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary" disabled={title.trim() === ''}>
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  );
};

export interface SidebarProps {
  session: Session;
  current: string | null;
  onClose: () => void;
  onLeave: (() => void) | null;
}

/** All chats, newest first. */
export const Sidebar = ({ session, current, onClose, onLeave }: SidebarProps) => {
  const { chats, nextCursor, phase } = useStore(session.store);
  const [renamed, setRenamed] = useState<Chat | null>(null);
  const [removed, setRemoved] = useState<Chat | null>(null);
  const remove = async (chat: Chat) => {
    await session.remove(chat.id);
    if (chat.id === current) goTo({ chat: null, view: null });
  };
  return (
    <aside className="sidebar" aria-label="Chats">
      <div className="sidebar-head">
        <Logo />
        <button
          type="button"
          className="icon-button menu-button"
          aria-label="Close the list of chats"
          onClick={onClose}
        >
          <Icon name="close" />
        </button>
      </div>
      <a className="button new-chat" href={hashOf({ chat: null, view: null })} onClick={onClose}>
        <Icon name="plus" /> New chat
      </a>
      <nav className="chats" aria-label="Your chats">
        {chats.length === 0 && phase === 'ready' && <p className="hint">Your chats will be listed here.</p>}
        <ul>
          {chats.map((chat) => (
            <li key={chat.id} className="chat-row">
              <a
                href={hashOf({ chat: chat.id, view: null })}
                aria-current={chat.id === current ? 'page' : undefined}
                title={chatTitle(chat)}
              >
                {chat.running !== null && (
                  <span className="pulse" role="img" aria-label="An answer is being generated" />
                )}
                <span className="chat-title">{chatTitle(chat)}</span>
              </a>
              <button
                type="button"
                className="icon-button"
                aria-label={`Rename ${chatTitle(chat)}`}
                onClick={() => setRenamed(chat)}
              >
                <Icon name="edit" />
              </button>
              <button
                type="button"
                className="icon-button"
                aria-label={`Delete ${chatTitle(chat)}`}
                onClick={() => setRemoved(chat)}
              >
                <Icon name="trash" />
              </button>
            </li>
          ))}
        </ul>
        {nextCursor !== null && (
          <button type="button" className="link-button" onClick={() => void session.more()}>
            Older chats
          </button>
        )}
      </nav>
      <div className="sidebar-foot">
        <ThemeSwitch />
        {onLeave !== null && (
          <button type="button" className="quiet-button" onClick={onLeave}>
            <Icon name="key" /> Forget my key
          </button>
        )}
      </div>
      {renamed !== null && (
        <Rename
          chat={renamed}
          onRename={(title) => void session.rename(renamed.id, title)}
          onClose={() => setRenamed(null)}
        />
      )}
      {removed !== null && (
        <Confirm
          title="Delete this chat?"
          text={`“${chatTitle(removed)}” is deleted with its computer: its messages, files and pictures cannot be restored.`}
          action="Delete"
          onConfirm={() => void remove(removed)}
          onClose={() => setRemoved(null)}
        />
      )}
    </aside>
  );
};
