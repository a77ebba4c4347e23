// A cell is a script, in which `import` and `export` are not allowed. This module turns static imports into awaited
// dynamic ones, points `import()` to a loader that starts at the working folder, and drops `export`. A `const` at the
// top level becomes a `let`: the inspector lets a cell redeclare a name, but not with a different kind.

const STATIC =
  /import\s*(?:([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(?:,\s*|(?=from\b)))?(?:\*\s*as\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*|\{([^}]*)\}\s*)?(?:from\s*)?(?:"([^"\n]*)"|'([^'\n]*)')(?:\s*with\s*(\{[^}]*\}))?\s*;?/uy;
const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$]*/uy;
const EXPORT = /export\s+(?:default\s+)?(?=[\p{ID_Start}$_([{"'`\d])/uy;
const EXPORT_LIST = /export\s*\{[^}]*\}\s*;?/y;
const BEFORE_REGEX =
  /(?:^|[([{},;=:!&|?+\-*%~^<>]|\b(?:return|typeof|case|in|of|do|else|void|delete|throw|await|yield))$/;

/** Returns the position after the string or template that starts at `at`, with its expressions. */
const skipString = (code, at) => {
  const quote = code[at];
  let index = at + 1;
  while (index < code.length && code[index] !== quote) {
    if (code[index] === '\\') index += 1;
    else if (quote === '`' && code.startsWith('${', index)) index = skipHole(code, index + 2) - 1;
    index += 1;
  }
  return index + 1;
};

const skipHole = (code, at) => {
  let depth = 1;
  let index = at;
  while (index < code.length && depth > 0) {
    const next = skipBlank(code, index);
    if (next > index) index = next;
    else if ('"\'`'.includes(code[index])) index = skipString(code, index);
    else {
      if (code[index] === '{') depth += 1;
      if (code[index] === '}') depth -= 1;
      index += 1;
    }
  }
  return index;
};

/** Returns the position after the comment that starts at `at`, or `at` if there is none. */
const skipBlank = (code, at) => {
  if (code.startsWith('//', at)) {
    const end = code.indexOf('\n', at);
    return end < 0 ? code.length : end;
  }
  if (code.startsWith('/*', at)) {
    const end = code.indexOf('*/', at + 2);
    return end < 0 ? code.length : end + 2;
  }
  return at;
};

const skipRegex = (code, at) => {
  let index = at + 1;
  let inClass = false;
  while (index < code.length && code[index] !== '\n' && (inClass || code[index] !== '/')) {
    if (code[index] === '\\') index += 1;
    else if (code[index] === '[') inClass = true;
    else if (code[index] === ']') inClass = false;
    index += 1;
  }
  return index + 1;
};

/** Converts `a, b as c` to the inside of an object pattern. */
const pattern = (names) =>
  names
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean)
    .map((name) => name.replace(/\s+as\s+/, ': '))
    .join(', ');

const toDynamic = ([text, first, all, names, double, single, attributes]) => {
  const specifier = JSON.stringify(double ?? single);
  const load = `await __import(${specifier}${attributes ? `, { with: ${attributes} }` : ''})`;
  const lines = '\n'.repeat(text.split('\n').length - 1);
  const parts = [first && `default: ${first}`, names && pattern(names)].filter(Boolean).join(', ');
  if (all) return `let ${all} = ${load}${parts ? `, { ${parts} } = ${all}` : ''};${lines}`;
  return parts ? `let { ${parts} } = ${load};${lines}` : `${load};${lines}`;
};

const match = (expression, code, at) => {
  expression.lastIndex = at;
  return expression.exec(code);
};

/** Returns the replacement for the word at `at` as [text, end]; null if it stays unchanged. */
const replaceWord = (code, at, word, depth, before) => {
  if (before.endsWith('.') && !before.endsWith('...')) return null;
  if (word === 'import') {
    if (/^import\s*\(/.test(code.slice(at, at + 100))) return ['__import', at + word.length];
    const found = depth === 0 && match(STATIC, code, at);
    if (found) return [toDynamic(found), at + found[0].length];
  }
  if (word === 'const' && depth === 0) return ['let', at + word.length];
  if (word === 'export' && depth === 0) {
    const found = match(EXPORT_LIST, code, at) ?? match(EXPORT, code, at);
    if (found) return ['', at + found[0].length];
  }
  return null;
};

/** Replaces imports, exports and constants; strings, templates, comments and regular expressions stay unchanged. */
export const rewriteImports = (code) => {
  if (!/\b(?:import|export|const)\b/.test(code)) return code;
  let out = '';
  let before = '';
  let depth = 0;
  let index = 0;
  const copy = (end, significant) => {
    const text = code.slice(index, end);
    out += text;
    if (significant) before = (before + text).slice(-12);
    index = end;
  };
  while (index < code.length) {
    const char = code[index];
    const blank = skipBlank(code, index);
    if (blank > index) copy(blank, false);
    else if (/\s/.test(char)) copy(index + 1, false);
    else if ('"\'`'.includes(char)) copy(skipString(code, index), true);
    else if (char === '/' && BEFORE_REGEX.test(before)) copy(skipRegex(code, index), true);
    else {
      const word = match(WORD, code, index)?.[0];
      const replaced = word && replaceWord(code, index, word, depth, before);
      if (replaced) {
        out += replaced[0];
        index = replaced[1];
        before = replaced[0] === '__import' ? '__import' : '';
        continue;
      }
      if ('{(['.includes(char)) depth += 1;
      if ('})]'.includes(char)) depth -= 1;
      // Keeps a word separate from the one before it: `return x` would otherwise become one word.
      if (word) before += ' ';
      copy(index + (word?.length ?? 1), true);
    }
  }
  return out;
};
