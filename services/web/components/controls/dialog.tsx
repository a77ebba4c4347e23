import { type ReactNode, useEffect, useId, useRef } from 'react';

/** A modal dialog. Escape and a click outside close it; the focus returns to where it was. */
export const Dialog = ({ title, children, onClose }: { title: string; children: ReactNode; onClose: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it.
    <dialog
      ref={dialog}
      className="dialog"
      aria-labelledby={titleId}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && dialog.current.close()}
    >
      <div className="dialog-body">
        <h2 id={titleId}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
};

/** Asks for confirmation before something is deleted for good. */
export const Confirm = ({
  title,
  text,
  action,
  onConfirm,
  onClose,
}: {
  title: string;
  text: string;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
}) => (
  <Dialog title={title} onClose={onClose}>
    <p>{text}</p>
    <form method="dialog" className="dialog-actions">
      <button type="submit" className="button">
        Cancel
      </button>
      <button type="submit" className="button danger" onClick={onConfirm}>
        {action}
      </button>
    </form>
  </Dialog>
);
