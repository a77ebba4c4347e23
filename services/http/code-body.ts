/** Languages by what stands behind `text/` or `application/`, and behind an `x-` there. */
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

/** As which code is documented; what it is called elsewhere is taken too. */
export const codeTypes = ['text/x-python', 'text/javascript', 'text/x-typescript', 'application/x-sh'] as const;

/** The language of a body that is code as it stands in a file; undefined for all that is read as JSON. */
export const languageOfType = (contentType: string | undefined): string | undefined => {
  const [, name = ''] = /^(?:text|application)\/(?:x-)?([a-z0-9-]+) *(?:;|$)/i.exec(contentType ?? '') ?? [];
  return languages.get(name.toLowerCase());
};
