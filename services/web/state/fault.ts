import { CodeBoxError, hasCode } from '#contract';

/** The error message for the reader. */
export const faultText = (error: unknown): string => {
  if (error instanceof CodeBoxError) {
    const isOurs = error.code === 'unavailable' && error.status === undefined;
    return isOurs ? 'CodeBox could not be reached, or the connection broke.' : error.message;
  }
  return error instanceof Error && error.message !== '' ? error.message : 'Something went wrong.';
};

/** Whether the agent refuses for lack of a valid key. */
export const isUnauthorized = (error: unknown): boolean => hasCode(error, 'unauthorized');
