import { Icon } from './icon.tsx';

/** Reports an error that is unrelated to the reader's current action. */
export const Toast = ({ text, onClose }: { text: string; onClose: () => void }) => (
  <div className="toast" role="alert">
    <Icon name="warning" />
    <span>{text}</span>
    <button type="button" className="icon-button" aria-label="Close this message" onClick={onClose}>
      <Icon name="close" />
    </button>
  </div>
);
