import { createCssVariablesTheme, createHighlighterCore, type HighlighterCore, type ThemedToken } from 'shiki/core';
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript';

const grammars = {
  python: () => import('shiki/langs/python.mjs'),
  javascript: () => import('shiki/langs/javascript.mjs'),
  typescript: () => import('shiki/langs/typescript.mjs'),
  bash: () => import('shiki/langs/bash.mjs'),
  json: () => import('shiki/langs/json.mjs'),
  sql: () => import('shiki/langs/sql.mjs'),
} as const;

type Grammar = keyof typeof grammars;

const aliases: Record<string, Grammar> = {
  py: 'python',
  js: 'javascript',
  ts: 'typescript',
  sh: 'bash',
  shell: 'bash',
};

const isGrammar = (name: string): name is Grammar => Object.hasOwn(grammars, name);

let highlighter: Promise<HighlighterCore> | undefined;

/** Splits the code into coloured tokens, line by line; null for an unsupported language. */
export const highlight = async (code: string, language: string): Promise<ThemedToken[][] | null> => {
  const name = aliases[language] ?? language;
  if (!isGrammar(name)) return null;
  highlighter ??= createHighlighterCore({
    themes: [createCssVariablesTheme({ name: 'page' })],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  });
  const core = await highlighter;
  await core.loadLanguage(grammars[name]());
  return core.codeToTokensBase(code, { lang: name, theme: 'page' });
};
