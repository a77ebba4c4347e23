/** Code that a model wrote between fences. */
export interface Block {
  language: string;
  code: string;
}

/** A longer line counts as text, so that a line without an end is not held back and scanned again with each piece. */
const maxOpening = 1000;
const fenced = /^ {0,3}(`{3,}|~{3,})/;
/** The start of a line that may still become an opening fence. */
const maybeOpening = /^ {0,3}(?:`{0,2}$|`{3,}(?!`)[^`]*$|~{0,2}$|~{3})/;

/** The fence that a line opens, and the name after it. */
const readOpening = (line: string): { fence: string; name: string } | undefined => {
  const [start = '', fence] = (line.length <= maxOpening && fenced.exec(line)) || [];
  const rest = line.slice(start.length);
  if (fence === undefined || rest.includes('`')) return undefined;
  return { fence, name: /^ *([\w+#.-]{0,40})/.exec(rest)?.[1] ?? '' };
};

const closes = (line: string, fence: string): boolean => {
  const bare = line.trim();
  return bare.length >= fence.length && bare === fence.charAt(0).repeat(bare.length);
};

/**
 * Finds the first runnable block in text that arrives in pieces. `languageOf` returns the language for the name after a
 * fence; other blocks are text.
 */
export const createFences = (languageOf: (name: string) => string | undefined) => {
  let pending = '';
  /** Whether the start of the line that `pending` continues has been passed on. */
  let isMidLine = false;
  let shownFence: string | undefined;
  let inside: { fence: string; language: string; lines: string[] } | undefined;

  /** Returns whether a whole line is text to pass on, and the block that it closes; other lines are fences or code. */
  const takeLine = (line: string): boolean | Block => {
    if (inside) {
      if (closes(line, inside.fence)) return blockOf(inside);
      inside.lines.push(line);
      return false;
    }
    if (shownFence !== undefined) {
      if (!isMidLine && closes(line, shownFence)) shownFence = undefined;
      return true;
    }
    const opening = isMidLine ? undefined : readOpening(line);
    if (opening === undefined) return true;
    const { fence, name } = opening;
    const language = languageOf(name);
    if (language === undefined) shownFence = fence;
    else inside = { fence, language, lines: [] };
    return language === undefined;
  };

  return {
    /** Returns text that is not code, and the block once it is complete; text after the block is ignored. */
    add(piece: string): { text: string; block?: Block } {
      pending += piece;
      // Joined only at the end of its line: scanning earlier would copy a long line with each piece.
      if (inside && !piece.includes('\n')) return { text: '' };
      let text = '';
      // Lines of text that follow each other are passed on together.
      let [start, textStart] = [0, 0];
      for (let end = pending.indexOf('\n'); end !== -1; end = pending.indexOf('\n', start)) {
        const taken = takeLine(pending.slice(start, end));
        if (taken !== true) {
          text += pending.slice(textStart, start);
          textStart = end + 1;
        }
        if (typeof taken === 'object') return { text, block: taken };
        start = end + 1;
        isMidLine = false;
      }
      text += pending.slice(textStart, start);
      pending = pending.slice(start);
      const mayOpen = !isMidLine && pending.length <= maxOpening && maybeOpening.test(pending);
      if (pending !== '' && !inside && !mayOpen) {
        text += pending;
        pending = '';
        isMidLine = true;
      }
      return { text };
    },

    /** Returns the rest at the end: a block may lack its closing fence. */
    end(): { text: string; block?: Block } {
      if (!inside) return { text: pending };
      if (pending !== '' && !closes(pending, inside.fence)) inside.lines.push(pending);
      return { text: '', block: blockOf(inside) };
    },
  };
};

const blockOf = ({ language, lines }: { language: string; lines: string[] }): Block => ({
  language,
  code: lines.join('\n'),
});
