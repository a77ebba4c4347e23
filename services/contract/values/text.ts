import { z } from 'zod';

/**
 * Text that UTF-8 can encode: a lone surrogate, which JSON can spell (`"\ud800"`), is refused. For text that may
 * contain NUL: source code, contents of files, input.
 */
export const wellFormedText = () => z.string().refine((text) => text.isWellFormed(), 'must not have lone surrogates');

/** Text that PostgreSQL, a path, an argument and a variable can hold: well formed and without NUL. */
export const plainText = () => wellFormedText().refine((text) => !text.includes('\0'), 'must not contain NUL');

/**
 * Text that a box sends and that is stored: what PostgreSQL cannot hold becomes U+FFFD, and text beyond `max` UTF-16
 * units is cut off. It is repaired instead of refused, because the run that it describes has ended anyway.
 */
export const foreignText = (max: number) => z.string().overwrite((text) => toPlain(text.slice(0, max)));

/** The same text with U+FFFD in place of each NUL and lone surrogate. */
export const toPlain = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');
