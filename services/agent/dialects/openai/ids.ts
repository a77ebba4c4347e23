import { decodePath, encodePath } from '#contract';

const suffix = /^[a-z]+-([a-z2-7]{26})$/;
const response = /^resp_([a-z2-7]{26})_([a-z2-7]{26})$/;
const container = /^cntr_([a-z2-7]{26})$/;

const file = /^cfile_([\w-]+)$/;

const suffixOf = (id: string): string => suffix.exec(id)?.[1] ?? id;

/** A response is one answer of a chat, and its id encodes both. */
export const responseId = (chat: string, message: string): string => `resp_${suffixOf(chat)}_${suffixOf(message)}`;

/** The chat and the answer that the id of a response encodes; undefined when it is invalid. */
export const fromResponseId = (id: string): { chat: string; message: string } | undefined => {
  const [, chat, message] = response.exec(id) ?? [];
  return chat && message ? { chat: `chat-${chat}`, message: `msg-${message}` } : undefined;
};

/** A container is the box of a chat. */
export const containerId = (chat: string): string => `cntr_${suffixOf(chat)}`;

export const fromContainerId = (id: string): string | undefined => {
  const chat = container.exec(id)?.[1];
  return chat && `chat-${chat}`;
};

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
