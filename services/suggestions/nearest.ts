/** A longer text was not mistyped; this also limits the cost of a comparison. */
const maxLength = 64;
/** A prefix counts from this length on, such as `lang` for `language`; it ranks before a second edit. */
const leastBeginning = 3;
const beginningCost = 1.5;

/** Normalises a name: `timeout_seconds` and `TimeoutSeconds` equal `timeoutSeconds`. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_ ]/g, '');

/**
 * How many characters have to be inserted, deleted, replaced or swapped with the next one to turn one text into the
 * other.
 */
export const editsBetween = (one: string, other: string): number => {
  let before: number[] = [];
  let last: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let i = 1; i <= one.length; i++) {
    [before, last, row] = [last, row, [i]];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      let edits = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (isSwapped) edits = Math.min(edits, at(before, j - 2) + 1);
      row.push(edits);
    }
  }
  return at(row, other.length);
};

const at = (row: number[], column: number): number => row[column] ?? Number.POSITIVE_INFINITY;

/**
 * The distance between a name and the given text: 0 for equality except for case and separators, undefined when they
 * are too different. Costs at most some thousand steps, whatever is given.
 */
export const farness = (given: string, name: string): number | undefined => {
  if (given.length > maxLength) return undefined;
  const [one, other] = [plain(given), plain(name)];
  const shorter = Math.min(one.length, other.length);
  const isBeginning = shorter >= leastBeginning && (one.startsWith(other) || other.startsWith(one));
  const allowed = Math.max(1, Math.floor(shorter / 3));
  // Each difference in length is an edit.
  const edits = Math.abs(one.length - other.length) > allowed ? Number.POSITIVE_INFINITY : editsBetween(one, other);
  const cost = Math.min(
    edits <= allowed && edits < shorter ? edits : Number.POSITIVE_INFINITY,
    isBeginning ? beginningCost : Number.POSITIVE_INFINITY,
  );
  return Number.isFinite(cost) ? cost : undefined;
};

/** The known name that was probably meant, by its spelling or by a synonym. */
export const nearest = (
  given: string,
  known: readonly string[],
  synonyms: ReadonlyMap<string, readonly string[]> = new Map(),
): string | undefined => {
  const called = synonyms.get(plain(given.slice(0, maxLength)))?.find((name) => known.includes(name));
  if (called !== undefined) return called;
  let best: { name: string; cost: number } | undefined;
  for (const name of known) {
    const cost = farness(given, name);
    if (cost !== undefined && cost < (best?.cost ?? Number.POSITIVE_INFINITY)) best = { name, cost };
  }
  return best?.name;
};

/** The suffix of an error message: `; did you mean …?`, or nothing without a suggestion. */
export const didYouMean = (name: string | undefined): string => (name === undefined ? '' : `; did you mean ${name}?`);
