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

/** The language of a body that is plain code; undefined for bodies that are read as JSON. */
export const languageOfType = (contentType: string | undefined): string | undefined => {
  const [, name = ''] = /^(?:text|application)\/(?:x-)?([a-z0-9-]+) *(?:;|$)/i.exec(contentType ?? '') ?? [];
  return languages.get(name.toLowerCase());
};
