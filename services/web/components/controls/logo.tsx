export const Logo = () => (
  <span className="logo">
    <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" />
      <path d="M13 10l-6 6 6 6M19 10l6 6-6 6" />
    </svg>
    CodeBox
  </span>
);
