import type { ModelMessage, ToolCall } from '../models/model.ts';

/** The pattern that every provider accepts as the id of a call and as the name of a tool. */
const plainId = /^[\w-]{1,64}$/;

/** Gives a call a new id when its own is invalid or was used before: some servers count from 0 in each round. */
export const createCallNames = (earlier: readonly ModelMessage[]) => {
  const used = new Set(
    earlier.flatMap((message) => (message.role === 'assistant' ? message.calls : [])).map(({ id }) => id),
  );
  return (call: ToolCall): ToolCall => {
    const id = plainId.test(call.id) && !used.has(call.id) ? call.id : `call_${crypto.randomUUID()}`;
    used.add(id);
    return { ...call, id };
  };
};

/**
 * The call in the form that is kept: providers refuse conversations whose arguments are not JSON objects, or with odd
 * tool names.
 */
export const toKept = ({ id, name: called, arguments: text }: ToolCall): ToolCall => {
  const name = called.replace(/[^\w-]/g, '_').slice(0, 64) || 'unnamed';
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { id, name, arguments: text };
  } catch {
    // Not JSON: it is kept as text.
  }
  return { id, name, arguments: JSON.stringify({ text }) };
};
