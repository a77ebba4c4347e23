import { z } from 'zod';
import { modelNameSchema, plainText, wellFormedText } from '#contract';
import { faulty } from '../../../http/faults/fault.ts';
import type { NamedUpload } from '../../chats/files/uploads.ts';
import type { UploadRow } from '../../store/uploads.ts';
import { type ConversationMessage, type TurnFile, type TurnInput, toInlineFile, toTurnInput } from './content.ts';
import { maxFileIds, maxOutputs, metadataSchema } from './limits.ts';

const text = wellFormedText().max(1_000_000);

const fileId = plainText().max(70);

const partSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('input_text'), text }),
    z.looseObject({ type: z.literal('output_text'), text }),
    z.looseObject({ type: z.literal('input_image'), image_url: z.string().nullish(), file_id: fileId.nullish() }).meta({
      description: 'A data URL. It is stored in the box as a file, which code can read; the model does not see it.',
    }),
    z.looseObject({
      type: z.literal('input_file'),
      filename: z.string().nullish(),
      file_data: z.string().nullish(),
      file_id: fileId.nullish().meta({ description: 'A file of /v1/files, instead of `file_data`.' }),
    }),
  ],
  { error: 'must be of type input_text, input_image or input_file' },
);

type FilePart = Exclude<z.infer<typeof partSchema>, { type: 'input_text' | 'output_text' }>;

const roles = ['system', 'developer', 'user', 'assistant'] as const;
const messageSchema = z.looseObject({
  type: z.literal('message').optional(),
  role: z.enum(roles),
  content: z.union([text, z.array(partSchema).max(1000)]),
});

/** Output items of an earlier response besides its text: a client that keeps its own state sends them back. */
const callSchema = z.looseObject({
  type: z.literal('code_interpreter_call'),
  code: z.string().nullish(),
  outputs: z
    .array(z.looseObject({ logs: z.string().optional() }))
    .max(maxOutputs)
    .nullish(),
});
const reasoningSchema = z.looseObject({ type: z.literal('reasoning') });

const itemSchema = z.union([messageSchema, callSchema, reasoningSchema], {
  error: 'must be a message, or an output item of a response: a code_interpreter_call or reasoning',
});
type Item = z.infer<typeof itemSchema>;

const ownTools = 'must be code_interpreter: this model has its own tools and calls none of its client';

/** `POST /v1/responses`. Other fields, such as `temperature`, are accepted and have no effect. */
export const responseRequestSchema = z
  .looseObject({
    model: modelNameSchema
      .nullish()
      .meta({ description: 'A name from GET /v1/models; the default model when left out.' }),
    input: z.union([text, z.array(itemSchema).min(1).max(2000)]),
    instructions: text.nullish(),
    stream: z.boolean().nullish(),
    store: z.boolean().nullish().meta({ description: '`false`: the chat and its box are removed after the answer.' }),
    previous_response_id: z
      .string()
      .max(64)
      .nullish()
      .meta({ description: 'The latest response of a chat, which continues with its box.' }),
    user: plainText().min(1).max(256).nullish().meta({ description: 'As X-CodeBox-User.' }),
    metadata: metadataSchema.nullish(),
    background: z.literal(false, { error: 'must be false' }).nullish(),
    conversation: z.null({ error: 'is not known: use previous_response_id' }).optional(),
    prompt: z.null({ error: 'is not known: send its text' }).optional(),
    text: z
      .looseObject({
        format: z.looseObject({ type: z.literal('text', { error: 'must be text' }) }).nullish(),
      })
      .nullish(),
    tools: z
      .array(
        z.looseObject({
          type: z.literal('code_interpreter', { error: ownTools }),
          container: z
            .union([
              z.string(),
              z.looseObject({
                type: z.literal('auto'),
                file_ids: z
                  .array(fileId)
                  .max(maxFileIds)
                  .nullish()
                  .meta({ description: 'Files of /v1/files, which are copied to the box.' }),
              }),
            ])
            .optional()
            .meta({ description: 'The container of an earlier response, whose chat continues.' }),
        }),
      )
      .max(1)
      .nullish(),
  })
  .meta({ id: 'ResponseRequest' });

export type ResponseRequest = z.infer<typeof responseRequestSchema>;

type Asked = Pick<ResponseRequest, 'input' | 'instructions' | 'tools'>;

/** The stored files that a request names: those for its container, and those in its messages. */
export const storedFilesIn = ({ input, tools }: Asked): NamedUpload[] => {
  const container = tools?.[0]?.container;
  const ids = typeof container === 'object' ? (container.file_ids ?? []) : [];
  const ofContainer = ids.map((id, index) => ({ id, pointer: `/tools/0/container/file_ids/${index}` }));
  if (typeof input === 'string') return ofContainer;
  const inMessages = input.flatMap((item, at) => {
    if (!('content' in item) || !Array.isArray(item.content)) return [];
    return (item.content as z.infer<typeof partSchema>[]).flatMap((part, index) =>
      'file_id' in part && typeof part.file_id === 'string'
        ? [{ id: part.file_id, pointer: `/input/${at}/content/${index}/file_id` }]
        : [],
    );
  });
  return [...ofContainer, ...inMessages];
};

/**
 * Reads the input of a response, with the stored files that it names by id. Throws `invalid_request` when it does not end with a
 * message of the user.
 */
export const readInput = (asked: Asked, stored: ReadonlyMap<string, UploadRow>): TurnInput => {
  const { input, instructions } = asked;
  const items: Item[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const storedFile = (id: string): TurnFile[] => {
    const upload = stored.get(id);
    return upload ? [{ name: upload.name, upload }] : [];
  };
  let pictures = 0;
  const toFiles = (part: FilePart, pointer: string, index: number): TurnFile[] => {
    if (part.file_id) return storedFile(part.file_id);
    const [data, field] = part.type === 'input_file' ? [part.file_data, ''] : [part.image_url, '/image_url'];
    if (data == null) throw faulty([{ pointer, detail: 'has neither data nor a file_id' }]);
    if (part.type === 'input_image') pictures += 1;
    const [name, fallback] =
      part.type === 'input_file' ? [part.filename, `file-${index + 1}`] : [undefined, `image-${pictures}`];
    return [toInlineFile(data, name, { fallback, pointer: `${pointer}${field}` })];
  };
  const conversation = items.flatMap((item, at): ConversationMessage[] => {
    if (item.type === 'reasoning') return [];
    if (item.type === 'code_interpreter_call') return [{ role: 'assistant', text: ranCode(item), files: [] }];
    const { role, content } = item;
    if (typeof content === 'string') return [{ role, text: content, files: [] }];
    const joined: ConversationMessage = { role, text: '', files: [] };
    content.forEach((part, index) => {
      const pointer = `/input/${at}/content/${index}`;
      if (part.type === 'input_text' || part.type === 'output_text') {
        joined.text += `${joined.text && '\n\n'}${part.text}`;
      } else if (role === 'user') joined.files.push(...toFiles(part, pointer, index));
      else throw faulty([{ pointer, detail: 'must be text: only the user gives files' }]);
    });
    return [joined];
  });
  const read = toTurnInput(conversation, '/input');
  const { container } = asked.tools?.[0] ?? {};
  const ofContainer = typeof container === 'object' ? (container.file_ids ?? []).flatMap(storedFile) : [];
  return {
    ...read,
    files: [...ofContainer, ...read.files],
    notes: instructions ? [instructions, ...read.notes] : read.notes,
  };
};

/** Code of an earlier response, as text for the model. */
const ranCode = ({ code, outputs }: z.infer<typeof callSchema>): string => {
  const logs = (outputs ?? []).flatMap(({ logs }) => (logs ? [logs.slice(0, 4000)] : []));
  return [`I ran this code:\n\n${code ?? ''}`, ...(logs.length > 0 ? [`It printed:\n\n${logs.join('\n')}`] : [])].join(
    '\n\n',
  );
};
