/** A random id. `crypto.randomUUID` exists only in pages by HTTPS or from localhost. */
export const newId = (): string => crypto.getRandomValues(new Uint32Array(4)).join('-');
