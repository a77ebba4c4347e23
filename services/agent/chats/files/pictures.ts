import { CodeBoxError, type ExecutionEvent, hasCode, type Image } from '#contract';
import type { StoredImage } from '../../store/stored.ts';
import type { Kept } from './kept.ts';

type Shown = Extract<ExecutionEvent, { mime: Record<string, unknown> }>;

const chartType = 'application/vnd.codebox.chart+json';
/** In order of preference: one form of each picture is kept. */
const kinds: Record<Image['mime'], string> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/webp': 'webp',
  'image/gif': 'gif',
  'image/svg+xml': 'svg',
};
const mimes = Object.keys(kinds) as Image['mime'][];
const maxPictures = 100;
const maxBytes = 20 * 1024 * 1024;
const maxHtml = 262_144;

/** Extracts the pictures that code shows, and stores them. */
export const createPictures = (kept: Kept, chat: string) => {
  let count = 0;

  const keep = async (mime: Image['mime'], data: string, chart: unknown): Promise<StoredImage> => {
    const bytes = Buffer.from(data, mime === 'image/svg+xml' ? 'utf8' : 'base64');
    if (bytes.length > maxBytes) throw new CodeBoxError('too_large', 'The picture is larger than 20 MiB.');
    if (count >= maxPictures) throw new CodeBoxError('too_large', `An answer has at most ${maxPictures} pictures.`);
    count += 1;
    const blob = await kept.keepBytes(chat, bytes);
    const chartBlob = chart === undefined ? null : await kept.keepBytes(chat, Buffer.from(JSON.stringify(chart)));
    return { name: `figure-${count}.${kinds[mime]}`, mime, blob, chartBlob };
  };

  return {
    /**
     * Resolves with the picture, and with the rest of the event if anything is left. A picture that cannot be kept is
     * replaced by text.
     */
    async takeOut(event: ExecutionEvent): Promise<{ event?: ExecutionEvent; image?: StoredImage }> {
      if (!('mime' in event)) return { event };
      const mime = mimes.find((type) => typeof event.mime[type] === 'string');
      if (mime === undefined) return { event: withShortHtml(event) };
      const kept = await keep(mime, String(event.mime[mime]), event.mime[chartType]).catch((error: unknown) => ({
        error,
      }));
      if ('error' in kept) {
        const why = hasCode(kept.error, 'too_large') ? ` ${kept.error.message}` : '';
        const text = `[A picture could not be kept.${why}]\n`;
        return { event: { seq: event.seq, type: 'stderr', text } };
      }
      // The plain-text form adds nothing to the picture.
      const rest = Object.entries(event.mime).filter(([type]) => type === 'text/html' || type === 'text/markdown');
      return {
        image: kept,
        ...(rest.length > 0 && { event: withShortHtml({ ...event, mime: Object.fromEntries(rest) }) }),
      };
    },
  };
};

export type Pictures = ReturnType<typeof createPictures>;

const withShortHtml = (event: Shown): ExecutionEvent => {
  const html = event.mime['text/html'];
  if (typeof html !== 'string' || html.length <= maxHtml) return event;
  const note = `[HTML of ${html.length} characters is too long to be shown: save it to a file.]`;
  const { 'text/html': _, ...rest } = event.mime;
  return { ...event, mime: { ...rest, 'text/plain': rest['text/plain'] ?? note } };
};
