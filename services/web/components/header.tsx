import { type View, views } from '../state/route.ts';
import { Icon } from './controls/icon.tsx';

const names: Record<View, string> = { chat: 'Chat', notebook: 'Notebook', terminal: 'Terminal' };

export interface HeaderProps {
  title: string;
  view: View;
  isMenuOpen: boolean;
  isFilesOpen: boolean;
  onView: (view: View) => void;
  onMenu: () => void;
  onFiles: () => void;
}

/** The title, and buttons for the views and panels. */
export const Header = ({ title, view, isMenuOpen, isFilesOpen, onView, onMenu, onFiles }: HeaderProps) => (
  <header className="header">
    <button
      type="button"
      className="icon-button menu-button"
      aria-label="Chats"
      aria-expanded={isMenuOpen}
      onClick={onMenu}
    >
      <Icon name="menu" />
    </button>
    <h1 className="title">{title}</h1>
    <nav className="views" aria-label="Views">
      {views.map((name) => (
        <button
          key={name}
          type="button"
          className="view-button"
          aria-current={view === name ? 'page' : undefined}
          onClick={() => onView(name)}
        >
          <Icon name={name} />
          <span>{names[name]}</span>
        </button>
      ))}
    </nav>
    <button type="button" className="view-button" aria-pressed={isFilesOpen} onClick={onFiles}>
      <Icon name="folder" />
      <span>Files</span>
    </button>
  </header>
);
