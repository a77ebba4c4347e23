const pageSize = 500;

export interface Page<T> {
  items: T[];
  metadata?: { _continue?: string; continue?: string };
}

/** Reads a whole list, page by page. Resolves with its last page, which has the items of all. */
export const readPages = async <P extends Page<unknown>>(
  readPage: (part: { limit: number; _continue?: string }) => Promise<P>,
): Promise<P> => {
  const items: unknown[] = [];
  for (let next: string | undefined; ; ) {
    const page = await readPage({ limit: pageSize, ...(next && { _continue: next }) });
    items.push(...page.items);
    // Lists of objects that the library does not know are not converted, and have the name of the API.
    next = page.metadata?._continue ?? page.metadata?.continue;
    if (!next) return { ...page, items };
  }
};
