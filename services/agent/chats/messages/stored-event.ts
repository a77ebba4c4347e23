import type { AnswerEvent } from '#contract';
import type { StoredFile, StoredImage } from '../../store/stored.ts';

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
type Addressed = 'image' | 'file' | 'done';
type Done = Omit<Extract<AnswerEvent, { type: 'done' }>, 'files'> & { files: StoredFile[] };

/** An event of an answer without URLs, which are made for each reader. Its text is as the model wrote it. */
export type StoredEvent =
  | Exclude<AnswerEvent, { type: Addressed }>
  | { seq: number; type: 'image'; call: string; image: StoredImage }
  | { seq: number; type: 'file'; call: string | null; file: StoredFile }
  | Done;

/** An event that has no number yet. */
export type NewEvent = Without<StoredEvent, 'seq'>;
