import type { ResponseCodeInterpreterToolCall, ResponseStreamEvent } from 'openai/resources/responses/responses';
import type { ItemPlace } from './message-item.ts';

/** One run of code, and the events by which it is told. */
export const createCodeItem = ({ id, index, take }: ItemPlace, container: string, code: string) => {
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
    sequence_number: take(),
  });

  return {
    item,
    isOpen: () => item.status === 'in_progress' || item.status === 'interpreting',

    open: (): ResponseStreamEvent[] => [
      {
        type: 'response.output_item.added',
        output_index: index,
        item: { ...item, code: '' },
        sequence_number: take(),
      },
      { ...place, type: 'response.code_interpreter_call.in_progress', sequence_number: take() },
      { ...place, type: 'response.code_interpreter_call_code.delta', delta: code, sequence_number: take() },
      { ...place, type: 'response.code_interpreter_call_code.done', code, sequence_number: take() },
    ],

    interpret(): ResponseStreamEvent {
      item.status = 'interpreting';
      return { ...place, type: 'response.code_interpreter_call.interpreting', sequence_number: take() };
    },

    show(url: string): void {
      images.push({ type: 'image', url });
    },

    /** Ends it with what it printed. */
    close(status: 'completed' | 'incomplete' | 'failed', logs: string): ResponseStreamEvent[] {
      item.status = status;
      item.outputs = [...(logs === '' ? [] : [{ type: 'logs' as const, logs }]), ...images];
      const done: ResponseStreamEvent[] = status === 'completed' ? [completed()] : [];
      return [...done, { type: 'response.output_item.done', output_index: index, item, sequence_number: take() }];
    },
  };
};

export type CodeItem = ReturnType<typeof createCodeItem>;
