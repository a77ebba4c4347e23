import type { AnswerEvent } from '#contract';
import { absolute, linksTo, markdownLink, withOrigin } from './links.ts';

/** What the model says, without code and pictures; pieces that code stands between are paragraphs. Links begin with `origin`. */
export const createAnswerText = (origin: string) => {
  let told = '';
  let isApart = false;
  return (event: AnswerEvent): string => {
    if (event.type === 'code' || event.type === 'tool') isApart = true;
    if (event.type !== 'text' || event.text === '') return '';
    const text = (isApart ? gapAfter(told) : '') + withOrigin(event.text, origin);
    isApart = false;
    told += text;
    return text;
  };
};

/** Blocks of Markdown stand apart. */
const gapAfter = (told: string): string =>
  told === '' || told.endsWith('\n\n') ? '' : told.endsWith('\n') ? '\n' : '\n\n';

/**
 * An answer as Markdown, piece by piece: what the model says, the pictures of its code where they were shown, and at the end links
 * to the files that the text has not named. Code and its output are left out. All links begin with `origin`.
 */
export const createAnswerMarkdown = (origin: string) => {
  let told = '';
  let isApart = true;

  const tell = (text: string): string => {
    told += text;
    return text;
  };
  const gap = () => gapAfter(told);

  return (event: AnswerEvent): string => {
    switch (event.type) {
      case 'text': {
        if (event.text === '') return '';
        const before = isApart ? gap() : '';
        isApart = false;
        return tell(before + withOrigin(event.text, origin));
      }
      case 'code':
      case 'tool':
        isApart = true;
        return '';
      case 'image':
        isApart = true;
        return tell(gap() + markdownLink(event.image.name, absolute(event.image.url, origin), true));
      case 'done': {
        const unnamed = event.files.filter(({ name }) => linksTo(told, name).length === 0);
        const links = unnamed.map(({ name, url }) => `- ${markdownLink(name, absolute(url, origin))}`);
        return links.length === 0 ? '' : tell(gap() + links.join('\n'));
      }
      default:
        return '';
    }
  };
};
