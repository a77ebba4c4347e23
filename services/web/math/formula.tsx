import { useEffect, useRef } from 'react';

/** A formula in TeX. Until it is drawn, or when it cannot be drawn, its source is shown. */
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
  // A different formula needs a new element: React does not own the drawn nodes.
  return (
    <span key={tex} ref={element} className="formula" data-block={isBlock}>
      {tex}
    </span>
  );
};
