// Lists the variables that cells have defined, through the inspector, which describes a value without running any of
// its code.

const previewLength = 500;
const nameLength = 256;
const maxVariables = 1000;
const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** Returns a function that lists `{name, type, preview, length?}` of the global variables defined after this call. */
export const createInspection = (session) => {
  const initial = new Set(Object.getOwnPropertyNames(globalThis));

  const call = (method, parameters) => {
    let reply;
    session.post(method, { objectGroup: 'variables', silent: true, ...parameters }, (error, result) => {
      reply = error ? undefined : result;
    });
    return reply;
  };
  const evaluate = (expression) => {
    const reply = call('Runtime.evaluate', { expression, generatePreview: true, throwOnSideEffect: true });
    return reply?.exceptionDetails ? undefined : reply?.result;
  };

  const describe = (name) => {
    // A long text is cut before it leaves the engine.
    const remote = evaluate(`typeof ${name} === 'string' ? ${name}.slice(0, ${previewLength}) : ${name}`);
    if (remote === undefined || isModule(remote)) return [];
    const kind = remote.type === 'object' ? (remote.className ?? remote.subtype ?? 'object') : remote.type;
    const length = remote.type === 'string' ? evaluate(`${name}.length`)?.value : lengthOf(remote);
    const preview = show(remote).toWellFormed();
    return [{ name, type: kind.slice(0, nameLength), preview, ...(Number.isSafeInteger(length) && { length }) }];
  };

  return () => {
    const lexical = call('Runtime.globalLexicalScopeNames', {})?.names ?? [];
    const global = Object.getOwnPropertyNames(globalThis).filter((name) => !initial.has(name));
    const names = [...new Set([...lexical, ...global])].filter(
      (name) => name.length <= nameLength && identifier.test(name),
    );
    try {
      return names.sort().slice(0, maxVariables).flatMap(describe);
    } finally {
      session.post('Runtime.releaseObjectGroup', { objectGroup: 'variables' });
    }
  };
};

/** Whether the value is an imported module. */
const isModule = (remote) => remote.className === 'Module' || remote.description === 'Module';

const lengthOf = ({ description }) => {
  const found = /\((\d+)\)$/.exec(description ?? '');
  return found ? Number(found[1]) : undefined;
};

const show = (remote) => {
  const { type, subtype, value, unserializableValue, description = '', preview } = remote;
  if (type === 'string') return JSON.stringify(value);
  if (type === 'undefined') return 'undefined';
  if (subtype === 'null') return 'null';
  if (type !== 'object') return cut(unserializableValue ?? description ?? String(value));
  if (!preview) return cut(description);
  const entries = (preview.entries ?? []).map(({ key, value }) =>
    key ? `${key.description} => ${value.description}` : String(value.description),
  );
  const isList = subtype === 'array' || subtype === 'typedarray';
  const properties = preview.properties
    .filter(({ name }) => preview.entries === undefined || name !== 'size')
    .map((property) => (isList ? property.value : `${property.name}: ${property.value}`));
  const shown = [...entries, ...properties, ...(preview.overflow ? ['…'] : [])].join(', ');
  if (subtype === 'error' || subtype === 'date' || subtype === 'regexp') return cut(description);
  const name = description === 'Object' || isList ? '' : `${description} `;
  return cut(`${name}${isList ? `[${shown}]` : `{${shown}}`}`);
};

const cut = (text) => (text.length > previewLength ? `${text.slice(0, previewLength)}…` : text);
