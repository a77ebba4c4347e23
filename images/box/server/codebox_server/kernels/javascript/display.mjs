// Converts a value to the MIME bundle that displays it; defines the global `display`.
import util from 'node:util';

const SHOW = Symbol.for('Jupyter.display');

const isBundle = (value) => {
  if (value === null || typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype) return false;
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => /^[\w.-]+\/[\w.+-]+$/.test(name));
};

const encode = (data) => (typeof data === 'string' ? data : Buffer.from(data).toString('base64'));

/** Returns data by MIME type: the value's own representation, otherwise its text as Node prints it. */
export const bundleOf = async (value) => {
  if (value !== null && typeof value === 'object' && typeof value[SHOW] === 'function') return await value[SHOW]();
  return { 'text/plain': util.inspect(value, { colors: false }) };
};

/**
 * `display(value)`, `display({'text/html': …})`, `display.html(text)` and so on; `{id, update}` as the last argument.
 */
export const createDisplay = (send, track) => {
  const show = (data, { id, update } = {}) => send({ display: { data, id, update } });
  const display = (value, options) => {
    if (isBundle(value)) return show(value, options);
    if (value === null || typeof value !== 'object' || typeof value[SHOW] !== 'function') {
      return show({ 'text/plain': util.inspect(value, { colors: false }) }, options);
    }
    track(bundleOf(value).then((data) => show(data, options)));
  };
  const kinds = { html: 'text/html', markdown: 'text/markdown', svg: 'image/svg+xml', json: 'application/json' };
  for (const [name, kind] of Object.entries(kinds)) display[name] = (data, options) => show({ [kind]: data }, options);
  for (const name of ['png', 'jpeg'])
    display[name] = (data, options) => show({ [`image/${name}`]: encode(data) }, options);
  display.clear = (wait = false) => send({ clear: Boolean(wait) });
  return display;
};
