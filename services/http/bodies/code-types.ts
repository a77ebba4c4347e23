/** Languages by the subtype of `text/` or `application/`, with or without `x-`. */
const languages = new Map([
  ['python', 'python'],
  ['python3', 'python'],
  ['python-script', 'python'],
  ['python-code', 'python'],
  ['javascript', 'javascript'],
  ['ecmascript', 'javascript'],
  ['typescript', 'typescript'],
  ['sh', 'bash'],
  ['shellscript', 'bash'],
  ['bash', 'bash'],
  ['r', 'r'],
  ['r-source', 'r'],
]);

/** The documented types of code; aliases are accepted too. */
export const codeTypes = ['text/x-python', 'text/javascript', 'text/x-typescript', 'application/x-sh'] as const;

/**
 * The language of a body that is plain code; undefined for bodies that are read as JSON. `text/x-NAME` is code in any language: whether the
 * box has it is decided where the code runs.
 */
export const languageOfType = (contentType: string | undefined): string | undefined => {
  const [type = ''] = (contentType ?? '').toLowerCase().split(/ *;/, 1);
  const [, name = ''] = /^(?:text|application)\/(?:x-)?([a-z0-9-]+)$/.exec(type) ?? [];
  return languages.get(name) ?? (type.startsWith('text/x-') && name !== '' ? name : undefined);
};
