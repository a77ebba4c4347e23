const suffix = /^[a-z]+-([a-z2-7]{26})$/;
const response = /^resp_([a-z2-7]{26})_([a-z2-7]{26})$/;
const container = /^cntr_([a-z2-7]{26})$/;

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
