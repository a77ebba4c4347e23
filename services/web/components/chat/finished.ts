/**
 * Splits Markdown into paragraphs that later text cannot change, and the rest. The cut is at the last empty line
 * outside a code fence.
 */
export const splitFinished = (text: string): [finished: string, rest: string] => {
  let cut = 0;
  let fence: string | undefined;
  let at = 0;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
    if (fence === undefined && line.trim() === '') cut = at;
    at += line.length + 1;
  }
  return [text.slice(0, cut), text.slice(cut)];
};
