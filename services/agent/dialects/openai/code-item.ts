import type { ResponseCodeInterpreterToolCall, ResponseStreamEvent } from 'openai/resources/responses/responses';
import type { ItemPlace } from './message-item.ts';

/** The output item of one run of code, and the events that describe it. */
export const createCodeItem = ({ id, index, nextNumber }: ItemPlace, container: string, code: string) => {
  const item: ResponseCodeInterpreterToolCall = {
    id,
    type: 'code_interpreter_call',
    status: 'in_progress',
    code,
    container_id: container,
    outputs: null,
  };
  const images: ResponseCodeInterpreterToolCall.Image[] = [];
  const place = { item_id: id, output_index: index };
  const completed = (): ResponseStreamEvent => ({
    ...place,
    type: 'response.code_interpreter_call.completed',
    sequence_number: nextNumber(),
  });

  return {
    item,
    isOpen: () => item.status === 'in_progress' || item.status === 'interpreting',

    open: (): ResponseStreamEvent[] => [
      {
        type: 'response.output_item.added',
        output_index: index,
        item: { ...item, code: '' },
        sequence_number: nextNumber(),
      },
      { ...place, type: 'response.code_interpreter_call.in_progress', sequence_number: nextNumber() },
      { ...place, type: 'response.code_interpreter_call_code.delta', delta: code, sequence_number: nextNumber() },
      { ...place, type: 'response.code_interpreter_call_code.done', code, sequence_number: nextNumber() },
    ],

    interpret(): ResponseStreamEvent {
      item.status = 'interpreting';
      return { ...place, type: 'response.code_interpreter_call.interpreting', sequence_number: nextNumber() };
    },

    show(url: string): void {
      images.push({ type: 'image', url });
    },

    /** Ends the item with its output. */
    close(status: 'completed' | 'incomplete' | 'failed', logs: string): ResponseStreamEvent[] {
      item.status = status;
      item.outputs = [...(logs === '' ? [] : [{ type: 'logs' as const, logs }]), ...images];
      const done: ResponseStreamEvent[] = status === 'completed' ? [completed()] : [];
      return [...done, { type: 'response.output_item.done', output_index: index, item, sequence_number: nextNumber() }];
    },
  };
};

export type CodeItem = ReturnType<typeof createCodeItem>;
