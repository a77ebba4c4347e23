import { decodePath, encodePath } from '#contract';

const file = /^cfile_([\w-]+)$/;

/** The id of a file of a container encodes the bytes of its path: the same path has the same id. */
export const containerFileId = (path: string): string => {
  const bytes = encodePath(path).replace(/%(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return `cfile_${Buffer.from(bytes, 'latin1').toString('base64url')}`;
};

/** The path that the id of a file encodes; undefined when it is invalid. */
export const fromContainerFileId = (id: string): string | undefined => {
  const bytes = file.exec(id)?.[1];
  return bytes && decodePath(Buffer.from(bytes, 'base64url').toString('hex').replace(/../g, '%$&'));
};
