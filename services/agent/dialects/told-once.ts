import type { AnswerEvent } from '#contract';

/** What an event is about, so that it is known again; text and output have no name. */
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
 * A follower of a long answer may be told all of it again, from `start` on, in fewer pieces. Passes on what was not told before, for
 * readers that cannot take anything back: text by its length, all else by what it is about. Output of code that still runs may
 * come twice.
 */
export const createToldOnce = () => {
  const told = new Map<string, number>();
  let toldCharacters = 0;
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
      const text = event.text.slice(Math.max(0, toldCharacters - before));
      toldCharacters = Math.max(toldCharacters, characters);
      return text === '' ? undefined : { ...event, text };
    }
    if (event.type === 'output') {
      const ran = `ran ${event.call}`;
      return (again.get(ran) ?? 0) < (told.get(ran) ?? 0) ? undefined : event;
    }
    const name = nameOf(event);
    const count = (again.get(name) ?? 0) + 1;
    again.set(name, count);
    if (count <= (told.get(name) ?? 0)) return undefined;
    told.set(name, count);
    return event;
  };
};
