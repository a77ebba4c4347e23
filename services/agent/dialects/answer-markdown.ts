import type { AnswerEvent } from '#contract';
import { absolute, linksTo, markdownLink, withOrigin } from './links.ts';

/**
 * The text of the model, without code and pictures; texts that code separates become paragraphs. Links begin with
 * `origin`.
 */
export const createAnswerText = (origin: string) => {
  let written = '';
  let isApart = false;
  return (event: AnswerEvent): string => {
    if (event.type === 'code' || event.type === 'tool') isApart = true;
    if (event.type !== 'text' || event.text === '') return '';
    const text = (isApart ? gapAfter(written) : '') + withOrigin(event.text, origin);
    isApart = false;
    written += text;
    return text;
  };
};

/** Separates blocks of Markdown by an empty line. */
const gapAfter = (written: string): string =>
  written === '' || written.endsWith('\n\n') ? '' : written.endsWith('\n') ? '\n' : '\n\n';

/**
 * An answer as Markdown, piece by piece: the model's text, the pictures of its code where they were shown, and at the
 * end links to files that the text does not name. Code and its output are left out. All links begin with `origin`.
 */
export const createAnswerMarkdown = (origin: string) => {
  let written = '';
  let isApart = true;

  const write = (text: string): string => {
    written += text;
    return text;
  };
  const gap = () => gapAfter(written);

  return (event: AnswerEvent): string => {
    switch (event.type) {
      case 'text': {
        if (event.text === '') return '';
        const before = isApart ? gap() : '';
        isApart = false;
        return write(before + withOrigin(event.text, origin));
      }
      case 'code':
      case 'tool':
        isApart = true;
        return '';
      case 'image':
        isApart = true;
        return write(gap() + markdownLink(event.image.name, absolute(event.image.url, origin), true));
      case 'done': {
        const unnamed = event.files.filter(({ name }) => linksTo(written, name).length === 0);
        const links = unnamed.map(({ name, url }) => `- ${markdownLink(name, absolute(url, origin))}`);
        return links.length === 0 ? '' : write(gap() + links.join('\n'));
      }
      default:
        return '';
    }
  };
};
