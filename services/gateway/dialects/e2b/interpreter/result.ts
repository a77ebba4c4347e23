import { chartMime, tableMime } from '#contract';
import { toE2bChart } from './chart.ts';

/** The fields of a result, by MIME type. */
const fields: Record<string, string> = {
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/json': 'json',
  'application/javascript': 'javascript',
  [tableMime]: 'data',
};

/** Converts displayed data to a result; types without a field of their own are in `extra`. */
export const toResult = (mime: Record<string, unknown>, isMain: boolean) => {
  const { 'text/plain': text, [chartMime]: chart, ...rest } = mime;
  const known = Object.entries(rest).filter(([type]) => Object.hasOwn(fields, type));
  const extra = Object.entries(rest).filter(([type]) => !Object.hasOwn(fields, type));
  const data = toE2bChart(chart);
  return {
    type: 'result',
    ...(text !== undefined && { text: unquoted(toText(text)) }),
    ...Object.fromEntries(known.map(([type, value]) => [fields[type], type.endsWith('json') ? value : toText(value)])),
    ...(data && { chart: data }),
    ...(extra.length > 0 && { extra: Object.fromEntries(extra) }),
    is_main_result: isMain,
  };
};

/** Jupyter permits a list of lines in place of a text. */
const toText = (value: unknown): string =>
  Array.isArray(value) ? value.join('') : typeof value === 'string' ? value : JSON.stringify(value);

/** Removes the quotes around the representation of a string, as E2B does. */
const unquoted = (text: string): string => (/^(['"]).*\1$/s.test(text) && text.length > 1 ? text.slice(1, -1) : text);
