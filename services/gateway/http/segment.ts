/** Decodes a segment of a raw path; returns undefined for one that is not percent-encoded text. */
export const decodeSegment = (segment: string): string | undefined => {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
};
