import type {
  ResponseOutputMessage,
  ResponseOutputText,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import type { Attachment } from '#contract';
import { containerFileId } from '../../../openai/container-file-id.ts';
import { linksTo } from '../links.ts';

/** The position of an item in a response, and the counter of its events. */
export interface ItemPlace {
  id: string;
  index: number;
  nextNumber: () => number;
}

type Citation = ResponseOutputText.ContainerFileCitation;

/** The output item of a text of the assistant, and the events that describe it. */
export const createMessageItem = ({ id, index, nextNumber }: ItemPlace) => {
  const text: ResponseOutputText = { type: 'output_text', text: '', annotations: [], logprobs: [] };
  const item: ResponseOutputMessage = { id, type: 'message', role: 'assistant', status: 'in_progress', content: [] };
  const place = { item_id: id, output_index: index, content_index: 0 };

  const annotation = (citation: Citation, at: number): ResponseStreamEvent => ({
    ...place,
    type: 'response.output_text.annotation.added',
    annotation: citation,
    annotation_index: at,
    sequence_number: nextNumber(),
  });

  return {
    item,
    text: () => text.text,

    open: (): ResponseStreamEvent[] => [
      {
        type: 'response.output_item.added',
        output_index: index,
        item: { ...item, content: [] },
        sequence_number: nextNumber(),
      },
      { ...place, type: 'response.content_part.added', part: { ...text }, sequence_number: nextNumber() },
    ],

    append(delta: string): ResponseStreamEvent {
      text.text += delta;
      return { ...place, type: 'response.output_text.delta', delta, logprobs: [], sequence_number: nextNumber() };
    },

    /** Ends the item and cites the files that its text links to; files that no text names are cited at its end. */
    close(container: string, named: readonly Attachment[], unnamed: readonly Attachment[]): ResponseStreamEvent[] {
      const cite = ({ path, name }: Attachment, start: number, end: number): Citation => ({
        type: 'container_file_citation',
        container_id: container,
        file_id: containerFileId(path),
        filename: name,
        start_index: start,
        end_index: end,
      });
      const { length } = text.text;
      const citations = [
        ...named.flatMap((file) => linksTo(text.text, file.name).map(({ start, end }) => cite(file, start, end))),
        ...unnamed.map((file) => cite(file, length, length)),
      ];
      text.annotations = citations;
      item.content = [text];
      item.status = 'completed';
      return [
        ...citations.map(annotation),
        { ...place, type: 'response.output_text.done', text: text.text, logprobs: [], sequence_number: nextNumber() },
        { ...place, type: 'response.content_part.done', part: text, sequence_number: nextNumber() },
        { type: 'response.output_item.done', output_index: index, item, sequence_number: nextNumber() },
      ];
    },
  };
};

export type MessageItem = ReturnType<typeof createMessageItem>;
