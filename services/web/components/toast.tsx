import { Icon } from './icon.tsx';

/** Something that went wrong beside what the reader does. */
export const Toast = ({ text, onClose }: { text: string; onClose: () => void }) => (
  <div className="toast" role="alert">
    <Icon name="warning" />
    <span>{text}</span>
    <button type="button" className="icon-button" aria-label="Close this message" onClick={onClose}>
      <Icon name="close" />
    </button>
  </div>
);
