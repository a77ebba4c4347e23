import { CodeBoxError } from '#contract';

/** Reads the filter of a list: a query string whose keys and values are percent-encoded once more. */
export const readMetadata = (text: string): Record<string, string> => {
  try {
    const pairs = [...new URLSearchParams(text)].map((pair) => pair.map(decodeURIComponent));
    return Object.fromEntries(pairs);
  } catch (cause) {
    throw new CodeBoxError('invalid_request', 'The metadata is invalid.', {
      cause,
      errors: [{ pointer: '/query/metadata', detail: 'is not percent-encoded' }],
    });
  }
};
