import type { AnswerEvent } from '#contract';

/** Identifies what an event is about, to recognise it in a replay; text and output have no name. */
const nameOf = (event: AnswerEvent): string => {
  switch (event.type) {
    case 'code':
      return `code ${event.call} ${event.state}`;
    case 'image':
      return `image ${event.call}`;
    case 'file':
      return `file ${event.call} ${event.file.path}`;
    case 'ran':
    case 'tool':
      return `${event.type} ${event.call}`;
    case 'notice':
      return `notice ${event.text}`;
    default:
      return event.type;
  }
};

/**
 * A long answer may be replayed to its follower from `start` on, in fewer pieces. This passes on only what is new, for
 * readers that cannot take anything back: text is recognised by its length, everything else by its name. Output of code
 * that still runs may come twice.
 */
export const createDeduplicator = () => {
  const passed = new Map<string, number>();
  let passedCharacters = 0;
  let again = new Map<string, number>();
  let characters = 0;

  return (event: AnswerEvent): AnswerEvent | undefined => {
    if (event.type === 'start') {
      again = new Map();
      characters = 0;
    }
    if (event.type === 'text') {
      const before = characters;
      characters += event.text.length;
      const text = event.text.slice(Math.max(0, passedCharacters - before));
      passedCharacters = Math.max(passedCharacters, characters);
      return text === '' ? undefined : { ...event, text };
    }
    if (event.type === 'output') {
      const ran = `ran ${event.call}`;
      return (again.get(ran) ?? 0) < (passed.get(ran) ?? 0) ? undefined : event;
    }
    const name = nameOf(event);
    const count = (again.get(name) ?? 0) + 1;
    again.set(name, count);
    if (count <= (passed.get(name) ?? 0)) return undefined;
    passed.set(name, count);
    return event;
  };
};
