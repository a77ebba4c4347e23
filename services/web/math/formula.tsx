import { useEffect, useRef } from 'react';

/** A formula in TeX. Until it is drawn, and where it cannot be, it stands as it is written. */
export const Formula = ({ tex, isBlock }: { tex: string; isBlock: boolean }) => {
  const element = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    let isWanted = true;
    import('./draw-formula.ts').then(
      ({ drawFormula }) => isWanted && element.current && drawFormula(element.current, tex, isBlock),
      () => {},
    );
    return () => {
      isWanted = false;
    };
  }, [tex, isBlock]);
  // Another formula is another element: what was drawn is not React's.
  return (
    <span key={tex} ref={element} className="formula" data-block={isBlock}>
      {tex}
    </span>
  );
};
