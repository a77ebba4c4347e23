import type { RunError } from '#contract';
import type { Ran } from './workspace.ts';

const maxTraceback = 2500;
const maxFiles = 20;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern removes these characters.
const ansi = /\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\)|[@-Z\\-_])/g;

/** The last state of a line that was overwritten, as progress bars are. */
const lastDrawn = (line: string): string => {
  const end = line.endsWith('\r') ? line.length - 1 : line.length;
  return line.slice(line.lastIndexOf('\r', end - 1) + 1, end);
};

/** Removes colours and cursor movements, and keeps the last state of overwritten lines. */
export const withoutAnsi = (text: string): string => {
  const plain = text.includes('\u001b') ? text.replace(ansi, '') : text;
  return plain.includes('\r') ? plain.split('\n').map(lastDrawn).join('\n') : plain;
};

/** The start and the end of a text within `budget` characters, with the number of missing bytes between them. */
export const headAndTail = (text: string, budget: number): string => {
  if (text.length <= budget) return text;
  const headLength = Math.floor(budget * 0.6);
  const head = text.slice(0, headLength).toWellFormed();
  const tail = text.slice(text.length - (budget - headLength)).toWellFormed();
  const missing = Buffer.byteLength(text) - Buffer.byteLength(head) - Buffer.byteLength(tail);
  return `${head}\n[… ${missing} of ${Buffer.byteLength(text)} bytes are left out here …]\n${tail}`;
};

const tracebackOf = ({ name, value, traceback }: RunError): string => {
  const text = withoutAnsi(traceback.join('\n')).trim();
  const last = `${name}: ${value}`.slice(0, 1000);
  const whole = text.includes(last) ? text : `${text}\n${last}`.trim();
  return whole.length <= maxTraceback ? whole : `[…]\n${whole.slice(-maxTraceback)}`;
};

const coachOf = ({ hint }: RunError): string => {
  if (!hint) return 'Find the cause first, then change the code; do not run the same code again.';
  if (hint.code !== 'install_package') return hint.detail;
  return `${hint.detail} If it cannot be installed, do it without ${hint.module}, or say that it cannot be done.`;
};

const afterInstalling = (installed: string): string =>
  `${installed} What stands before the import has run: do not run that again, go on from the import.`;

const nudge = 'It printed nothing: print what you want to see.';

const filesOf = ({ files: { created, modified } }: Ran): string[] => {
  const list = (what: string, paths: readonly string[]) => {
    const more = paths.length > maxFiles ? ` and ${paths.length - maxFiles} more` : '';
    return paths.length > 0 ? [`[${what}: ${paths.slice(0, maxFiles).join(', ')}${more}]`] : [];
  };
  return [...list('Files made', created), ...list('Files changed', modified)];
};

const endOf = ({ status, cause, stateLost, durationMs }: Ran): string[] => {
  const lines: string[] = [];
  if (status !== 'ok' && status !== 'error')
    lines.push(`[It ended with ${status} after ${(durationMs / 1000).toFixed(1)} s${cause ? `: ${cause}` : ''}]`);
  else if (cause) lines.push(`[${cause}]`);
  if (stateLost) lines.push('[All variables and imports of this language are gone: make them again. Files are there.]');
  return lines;
};

export interface DescribeOptions {
  /** In characters. */
  budget: number;
  /** Where the box keeps the whole text when it is longer than the budget. */
  savedAs: string | undefined;
  /** States which packages were installed because the code lacked them. */
  installed?: string | undefined;
}

/** The description of a run that the model receives. */
export const describeRan = (ran: Ran, { budget, savedAs, installed }: DescribeOptions): string => {
  const text = withoutAnsi(ran.text).trimEnd();
  const lines: string[] = [];
  if (text !== '') lines.push(headAndTail(text, budget));
  if (savedAs) lines.push(`[All that was kept of the output is in /mnt/data/${savedAs}: read the part that you need.]`);
  if (ran.images > 0)
    lines.push(`[${ran.images} ${ran.images === 1 ? 'figure was' : 'figures were'} shown to the reader.]`);
  if (ran.error) lines.push(tracebackOf(ran.error), installed ? afterInstalling(installed) : coachOf(ran.error));
  lines.push(...endOf(ran), ...filesOf(ran));
  if (lines.length === 0) lines.push(ran.status === 'ok' ? nudge : `It ended with ${ran.status}.`);
  return lines.join('\n');
};
