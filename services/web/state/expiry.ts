/** How often the page looks for links that are about to expire. */
export const freshenMs = 30_000;
const marginMs = 5 * 60_000;

/** Whether one of these links has expired or is about to. */
export const isExpiring = (links: readonly { expiresAt: string | null }[]): boolean =>
  links.some(({ expiresAt }) => expiresAt !== null && Date.parse(expiresAt) - Date.now() <= marginMs);
