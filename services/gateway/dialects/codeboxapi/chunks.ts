import { stripVTControlCharacters } from 'node:util';
import { errorOf, type RunEvent, richOf } from './outputs.ts';

/** A part of the output: text, a picture in base64, or an error. */
export interface Chunk {
  type: 'txt' | 'img' | 'err';
  content: string;
}

const txt = (content: string): Chunk => ({ type: 'txt', content });

/** Converts an event to the chunks that the client receives for it. */
export const chunksOf = (event: RunEvent): Chunk[] => {
  switch (event.type) {
    case 'stdout':
      return [txt(event.text)];
    case 'stderr':
      return [{ type: 'err', content: event.text }];
    case 'result':
    case 'display':
    case 'display_update': {
      const rich = richOf(event.mime);
      if (!rich) return [];
      return ['image' in rich ? { type: 'img', content: rich.image } : txt(rich.text)];
    }
    default: {
      const error = errorOf(event);
      const traceback = event.type === 'error' ? [txt(stripVTControlCharacters(event.traceback.join('\n')))] : [];
      return error === undefined ? [] : [...traceback, { type: 'err', content: error }];
    }
  }
};

/** The client searches its whole buffer at each read, so long text is sent in pieces of this many characters. */
const pieces = /.{1,16384}/gsu;
/** The positions at which a text is split so that no part contains a closing tag, which would end its chunk. */
const cuts = { txt: /(?<=<\/t)(?=xt>)/, err: /(?<=<\/e)(?=rr>)/ };

/** Writes a chunk for the stream. A long text, or one with a closing tag, becomes several, which the client joins. */
export const toTags = ({ type, content }: Chunk): string => {
  const parts = type === 'img' ? [content] : content.split(cuts[type]).flatMap((part) => part.match(pieces) ?? []);
  return parts.map((part) => `<${type}>${part}</${type}>`).join('');
};
