import { z } from 'zod';
import { modelNameSchema, plainText, wellFormedText } from '#contract';
import { faulty } from '../../../http/faults/fault.ts';
import { type ConversationMessage, type InlineFile, type TurnInput, toInlineFile, toTurnInput } from './content.ts';
import { maxOutputs, metadataSchema } from './limits.ts';

const text = wellFormedText().max(1_000_000);

const partSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('input_text'), text }),
    z.looseObject({ type: z.literal('output_text'), text }),
    z.looseObject({ type: z.literal('input_image'), image_url: z.string() }).meta({
      description: 'A data URL. It is stored in the box as a file, which code can read; the model does not see it.',
    }),
    z.looseObject({ type: z.literal('input_file'), filename: z.string().nullish(), file_data: z.string() }),
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
                file_ids: z.array(z.string()).max(0, { error: 'must be empty: send files as input_file' }).nullish(),
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

/** Reads the input of a response. Throws `invalid_request` when it does not end with a message of the user. */
export const readInput = ({ input, instructions }: Pick<ResponseRequest, 'input' | 'instructions'>): TurnInput => {
  const items: Item[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  let pictures = 0;
  const toFile = (part: FilePart, pointer: string, index: number): InlineFile => {
    if (part.type === 'input_file') {
      return toInlineFile(part.file_data, part.filename, { fallback: `file-${index + 1}`, pointer });
    }
    pictures += 1;
    return toInlineFile(part.image_url, undefined, { fallback: `image-${pictures}`, pointer: `${pointer}/image_url` });
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
      } else if (role === 'user') joined.files.push(toFile(part, pointer, index));
      else throw faulty([{ pointer, detail: 'must be text: only the user gives files' }]);
    });
    return [joined];
  });
  const read = toTurnInput(conversation, '/input');
  return instructions ? { ...read, notes: [instructions, ...read.notes] } : read;
};

/** Code of an earlier response, as text for the model. */
const ranCode = ({ code, outputs }: z.infer<typeof callSchema>): string => {
  const logs = (outputs ?? []).flatMap(({ logs }) => (logs ? [logs.slice(0, 4000)] : []));
  return [`I ran this code:\n\n${code ?? ''}`, ...(logs.length > 0 ? [`It printed:\n\n${logs.join('\n')}`] : [])].join(
    '\n\n',
  );
};
