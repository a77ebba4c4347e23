import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { model, pathParameters } from './examples.ts';

const seconds = 1_769_860_800;
const { container: containerId, response: responseId, file: fileId } = pathParameters;
const container = {
  id: containerId,
  object: 'container',
  created_at: seconds,
  last_active_at: seconds,
  name: 'Sales',
  status: 'running',
};
const file = {
  id: fileId,
  object: 'container.file',
  container_id: containerId,
  path: '/mnt/data/table.csv',
  bytes: 18,
  created_at: seconds,
  source: 'assistant',
};
const storedId = 'file-a2b3c4d5e6f7g2h3i4j5k6l7m2';
const stored = {
  id: storedId,
  object: 'file',
  bytes: 18,
  created_at: seconds,
  expires_at: seconds + 2_592_000,
  filename: 'table.csv',
  purpose: 'user_data',
  status: 'processed',
};
const response = {
  id: responseId,
  object: 'response',
  created_at: seconds,
  status: 'completed',
  model,
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'The mean is 4.67.', annotations: [] }],
    },
  ],
};

/** Texts about the same chats in the form of other APIs. */
export const dialectTexts: OperationTexts = {
  'POST /v1/chat/completions': {
    description:
      "For OpenAI's clients: the Markdown of the answer includes pictures and links to files. With the same " +
      '`session_id` a conversation keeps its box.',
    request: { model, messages: [{ role: 'user', content: 'What is 6 * 7?' }] },
    response: {
      id: 'chatcmpl-a2b3c4d5e6f7',
      object: 'chat.completion',
      created: seconds,
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: '42' }, finish_reason: 'stop' }],
    },
  },
  'POST /v1/responses': {
    description:
      "For OpenAI's clients with the tool `code_interpreter`. `previous_response_id` continues a conversation and its box. Errors are " +
      "in OpenAI's form.",
    request: {
      model,
      input: 'What is the mean of 1, 4 and 9?',
      tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
    },
    response,
  },
  'GET /v1/responses/{response}': {
    description:
      'Also works while the response is being generated. 404 for a response that was created with `store: false`.',
    response,
  },
  'DELETE /v1/responses/{response}': {
    description: 'This deletes the whole chat, so its other responses are deleted too.',
    response: { id: responseId, object: 'response.deleted', deleted: true },
  },
  'POST /v1/responses/{response}/cancel': {
    description: 'The response so far is kept. A response that has ended does not change.',
    response: { ...response, status: 'cancelled' },
  },
  'POST /v1/containers': {
    description:
      'The container is a new chat. A response uses it with `"tools": [{"type": "code_interpreter", "container": "cntr_…"}]`, and continues its conversation.',
    request: { name: 'mine', file_ids: [storedId] },
    response: container,
  },
  'GET /v1/containers': {
    description:
      'All chats of the owner are containers. Pages continue with `after`, the id of the last container that was read.',
    response: { object: 'list', data: [container], first_id: container.id, last_id: container.id, has_more: false },
  },
  'GET /v1/containers/{container}': {
    description: 'The container is the box of a chat; each `code_interpreter_call` has its id.',
    response: container,
  },
  'DELETE /v1/containers/{container}': {
    description: 'Its files, its box and its conversation are deleted too.',
  },
  'GET /v1/containers/{container}/files': {
    description: 'Pages continue with `after`, the id of the last file that was read.',
    response: { object: 'list', data: [file], first_id: fileId, last_id: fileId, has_more: false },
  },
  'POST /v1/containers/{container}/files': {
    description:
      'The file is the field `file` of a form, and its filename becomes its name in the working folder. JSON with `file_id` copies a stored file instead.',
    request: { file_id: storedId },
    response: file,
  },
  'GET /v1/containers/{container}/files/{file}': {
    description: 'The path and the size of the file, and when it was changed.',
    response: file,
  },
  'DELETE /v1/containers/{container}/files/{file}': {
    description: 'Deletes the file from the box. No other path gets its id.',
  },
  'GET /v1/containers/{container}/files/{file}/content': {
    description: 'The file as a download, unchanged.',
  },
  'POST /v1/files': {
    description:
      'The file is the field `file` of a form, with `purpose`. It is deleted 30 days later, or earlier with `expires_after[seconds]`. ' +
      'Its owner is the key of the request, or its user.',
    response: stored,
  },
  'GET /v1/files': {
    description: 'Pages continue with `after`, the id of the last file that was read.',
    response: { object: 'list', data: [stored], first_id: storedId, last_id: storedId, has_more: false },
  },
  'GET /v1/files/{file}': { description: 'Its name, its size, and when it expires.', response: stored },
  'GET /v1/files/{file}/content': { description: 'The file as it was stored.' },
  'DELETE /v1/files/{file}': {
    description: 'Containers that were created with it keep their copies.',
    response: { id: storedId, object: 'file', deleted: true },
  },
  'POST /v1/generate': {
    description:
      'For apps that want one answer without a stream. With `session` the conversation continues, with its variables and files.',
    request: { message: 'Plot y over x.', files: [{ name: 'table.csv', text: 'x,y\n1,1\n2,4\n' }] },
    response: {
      content: 'Here is the plot.',
      files: [
        { name: 'plot.png', mime: 'image/png', sizeBytes: 3, base64: 'cG5n', url: '/v1/files/eyJhIjoxfQ/plot.png' },
      ],
      code_log: [{ language: 'python', code: 'plt.plot(t.x, t.y)', output: '', status: 'ok' }],
      session: 'a2b3c4d5e6f7g2h3i4j5k6l7m2',
      status: 'ok',
    },
  },
  'POST /v1/plot': {
    description:
      'The model writes code from the columns of the table and their types; it sees rows only with `shareRows`. With `Accept: ' +
      'image/png` or `image/svg+xml` the response is the picture itself.',
    request: { prompt: 'Sales by month as bars', data: { month: ['Jan', 'Feb'], sales: [3, 5] } },
    response: {
      image: { mime: 'image/png', base64: 'cG5n' },
      chart: null,
      code: 'table.plot.bar(x="month", y="sales")',
      text: 'Sales by month.',
    },
  },
  'GET /gpt-code-ui/models': {
    description: 'For the page of GPT-Code-UI, in the form that it expects.',
    response: [{ displayName: model, name: model }],
  },
  'POST /gpt-code-ui/generate': {
    description: 'For the page of GPT-Code-UI. Each visitor, or key, has one chat.',
    request: { prompt: 'What is 6 * 7?', model: null },
    response: { code: 'print(6 * 7)', text: 'I compute it.' },
  },
  'POST /gpt-code-ui/inject-context': {
    description: 'For the page of GPT-Code-UI: the model receives the text with the next prompt.',
    request: { prompt: 'The table has sales by month.' },
    response: { result: 'success' },
  },
  'POST /gpt-code-ui/upload': {
    description: 'For the page of GPT-Code-UI: the file is the field `file` of a form.',
    response: { message: 'File successfully uploaded' },
  },
  'GET /gpt-code-ui/download': {
    description: 'For the page of GPT-Code-UI: `file` is a path in the working folder.',
  },
  'GET /gpt-code-ui/api/api': {
    description: 'For the page of GPT-Code-UI, which polls while something runs.',
    response: { results: [{ type: 'message', value: '42' }] },
  },
  'POST /gpt-code-ui/api/api': {
    description: 'For the page of GPT-Code-UI. A GET of the same path returns the output.',
    request: { command: 'print(6 * 7)' },
    response: { result: 'success' },
  },
  'POST /gpt-code-ui/api/restart': {
    description: 'For the page of GPT-Code-UI, when code does not stop.',
    request: {},
    response: { result: 'success' },
  },
};
