import { type ReactNode, useLayoutEffect, useRef, useState } from 'react';

/** Shows the first lines of long content, and the rest on request. `isTail` shows its end instead. */
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
  const [isWide, setWide] = useState(false);
  useLayoutEffect(() => {
    const { current } = frame;
    if (current === null) return;
    const measure = () => {
      setWide(current.scrollWidth > current.clientWidth);
      if (!isOpen) setLong(current.scrollHeight > current.clientHeight + 8);
      if (isTail) current.scrollTop = current.scrollHeight;
    };
    current.scrollTop = 0;
    measure();
    // Its content grows, and the window may become narrower.
    const watcher = new ResizeObserver(measure);
    watcher.observe(current);
    for (const child of current.children) watcher.observe(child);
    return () => watcher.disconnect();
  }, [isOpen, isTail]);
  return (
    <div className="folded" data-open={isOpen} data-long={isLong && !isOpen}>
      {/* biome-ignore lint/a11y/useSemanticElements: no form fields, which a fieldset is for. */}
      <div
        className="folded-frame"
        ref={frame}
        role="group"
        aria-label={label}
        tabIndex={isLong || isWide ? 0 : undefined}
      >
        {children}
      </div>
      {(isLong || isOpen) && (
        <button type="button" className="link-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show less' : 'Show all'}
        </button>
      )}
    </div>
  );
};
