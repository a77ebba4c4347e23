import { type ReactNode, useLayoutEffect, useRef, useState } from 'react';

/** Shows the first lines of what is long, and the rest when it is asked for. `isTail` shows the end of it instead. */
export const Folded = ({
  children,
  isTail = false,
  label,
}: {
  children: ReactNode;
  isTail?: boolean;
  label: string;
}) => {
  const frame = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  const [isLong, setLong] = useState(false);
  useLayoutEffect(() => {
    const { current } = frame;
    if (current === null || isOpen) return;
    setLong(current.scrollHeight > current.clientHeight + 8);
    current.scrollTop = isTail ? current.scrollHeight : 0;
  });
  return (
    <div className="folded" data-open={isOpen} data-long={isLong && !isOpen}>
      <section className="folded-frame" ref={frame} aria-label={label} tabIndex={isLong ? 0 : undefined}>
        {children}
      </section>
      {(isLong || isOpen) && (
        <button type="button" className="link-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show less' : 'Show all'}
        </button>
      )}
    </div>
  );
};
