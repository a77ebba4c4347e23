const paths = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  attach: 'M20 11l-8.5 8.5a5 5 0 01-7-7L13 4a3.4 3.4 0 015 5l-8.5 8.4a1.7 1.7 0 01-2.4-2.4L15 7',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  edit: 'M4 20l1-4L16 5l3 3L8 19z',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 13l4 4L19 7',
  close: 'M6 6l12 12M18 6L6 18',
  play: 'M8 5l11 7-11 7z',
  folder: 'M3 6h6l2 2h10v11H3z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  terminal: 'M5 8l4 4-4 4M12 17h7',
  chat: 'M4 5h16v11H9l-5 4z',
  notebook: 'M6 3h13v18H6zM6 7H3M6 12H3M6 17H3M10 8h5',
  key: 'M14 10a4 4 0 10-3 3.9V21h3v-3h2v-3h-2v-1.5A4 4 0 0014 10z',
  sun: 'M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5',
  moon: 'M20 14A8 8 0 0110 4a8 8 0 1010 10z',
  screen: 'M3 5h18v11H3zM9 20h6M12 16v4',
  chart: 'M4 20V4M4 20h16M8 16v-5M12 16V8M16 16v-3',
  info: 'M12 3a9 9 0 100 18 9 9 0 000-18zM12 11v5M12 8v.01',
  warning: 'M12 4L2.5 20h19zM12 10v4M12 17v.01',
  up: 'M6 14l6-6 6 6',
  down: 'M6 10l6 6 6-6',
  shield: 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6z',
} as const;

export type IconName = keyof typeof paths;

/** A decorative icon, next to text or inside a labelled button. */
export const Icon = ({ name }: { name: IconName }) => (
  <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d={paths[name]} />
  </svg>
);
