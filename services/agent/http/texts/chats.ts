import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { answer, at, attachment, chat, execution, model, pageOf } from './examples.ts';

/** Texts about chats and their contents. */
export const chatTexts: OperationTexts = {
  'GET /healthz': {
    description: 'For a liveness probe: succeeds as long as the process serves, whatever else fails.',
    response: { status: 'ok' },
  },
  'GET /readyz': {
    description:
      'For readiness probes and load balancers: 503 when chats are not available now, or the agent is stopping.',
    response: { status: 'ok' },
  },
  'GET /v1/info': {
    description: 'Needs no key. `hint` names the settings to make when no language model is configured.',
    response: { name: 'codebox-agent', isOpen: true, hasModel: true, hint: null, languages: ['python', 'javascript'] },
  },
  'POST /v1/chats': {
    description: 'The box is created with the first question or the first file. All fields are optional.',
    request: { title: 'Sales', approval: 'never' },
    response: { ...chat, box: null },
  },
  'GET /v1/chats': {
    description: 'The chats of the key, of its user when X-CodeBox-User names one, or of the visitor.',
    response: pageOf(chat),
  },
  'GET /v1/chats/{chat}': {
    description: '`running` is the id of the answer that is being generated; `tokens` are the sum of all answers.',
    response: chat,
  },
  'PATCH /v1/chats/{chat}': {
    description: 'Changes the given fields. `"model": null` returns to the default model.',
    request: { title: 'Sales of January', approval: 'always' },
    response: { ...chat, title: 'Sales of January', approval: 'always' },
  },
  'DELETE /v1/chats/{chat}': {
    description: 'A running answer is stopped. Links to the files of the chat no longer work.',
  },
  'POST /v1/chats/{chat}/messages': {
    description:
      'Upload files to the chat first and name them here. With `Accept: text/event-stream` or `application/x-ndjson` the answer is ' +
      'streamed while it is generated: text, code, outputs, pictures and files.',
    request: { content: 'What is the mean of y?', files: ['table.csv'] },
    response: answer,
  },
  'GET /v1/chats/{chat}/messages': {
    description: 'A page of questions and answers, with code, outputs and files in order.',
    response: pageOf(answer),
  },
  'GET /v1/chats/{chat}/messages/{message}': {
    description: 'The `status` of an answer that is being generated is `running`.',
    response: answer,
  },
  'GET /v1/chats/{chat}/messages/{message}/events': {
    description:
      'Events are numbered from 1 by `seq`; `after`, or `Last-Event-ID`, is the last one that the caller has read.',
    response: { seq: 2, type: 'text', text: 'The mean is ' },
  },
  'POST /v1/chats/{chat}/stop': {
    description: 'Code that it runs is interrupted; the answer so far is kept.',
  },
  'POST /v1/chats/{chat}/approvals': {
    description: 'For chats with approval `always`. The model receives the `reason` for declining.',
    request: { call: 'call-1', approved: false, reason: 'Do not delete files.' },
  },
  'GET /v1/models': {
    description: "The models of all configured providers, in the form that OpenAI's clients read.",
    response: {
      object: 'list',
      data: [
        { id: model, object: 'model', owned_by: 'openai', created: 1_769_860_800, needsKey: false, isDefault: true },
      ],
      hint: null,
    },
  },
  'GET /v1/chats/{chat}/files': {
    description: 'The entries of the working folder, or of the folder `path`. A link works for an hour, without a key.',
    response: pageOf({
      path: 'table.csv',
      name: 'table.csv',
      type: 'file',
      sizeBytes: 18,
      modifiedAt: at,
      url: attachment.url,
      expiresAt: attachment.expiresAt,
    }),
  },
  'POST /v1/chats/{chat}/files': {
    description:
      'For a table, the response has the columns and their types, without values; the model receives them too.',
    response: { items: [{ ...attachment, preview: 'x: int64, y: int64' }] },
  },
  'GET /v1/chats/{chat}/files/{path}': {
    description: 'Paths are relative to the working folder, /mnt/data.',
  },
  'HEAD /v1/chats/{chat}/files/{path}': {
    description: 'The same headers as for a GET, without the bytes.',
  },
  'PUT /v1/chats/{chat}/files/{path}': {
    description: 'The body is the file, as a stream. Code sees the file once it is complete.',
    response: { ...attachment, preview: null },
  },
  'DELETE /v1/chats/{chat}/files/{path}': {
    description: '404 when there is no such file. Copies that were kept as artifacts stay.',
  },
  'POST /v1/chats/{chat}/artifacts': {
    description: 'The agent keeps the copy with the chat, so it outlives the box.',
    request: { path: 'plot.png' },
    response: { ...attachment, path: 'plot.png', name: 'plot.png', mime: 'image/png' },
  },
  'GET /v1/files/{path}': {
    description: 'Needs no key: anyone who has the link can read the file, as long as the link is valid.',
  },
  'HEAD /v1/files/{path}': {
    description: 'The same headers as for a GET, without the bytes. Needs no key.',
  },
  'POST /v1/chats/{chat}/cells': {
    description:
      'Runs in the same kernel as the code of answers, without a model. It cannot run at the same time as code of an answer.',
    request: { code: '6 * 7', language: 'python' },
    response: execution,
  },
  'GET /v1/chats/{chat}/cells/{execution}/events': {
    description:
      'Events are numbered from 1 by `seq`; `after`, or `Last-Event-ID`, is the last one that the caller has read. Of a cell whose ' +
      'output is no longer kept, because its box hibernates for example, `done` alone is sent. 404 once the chat has another box.',
    response: { seq: 4, type: 'done', status: 'ok', durationMs: 12.5, stateLost: false },
  },
  'POST /v1/chats/{chat}/cells/{execution}/interrupt': {
    description: 'Like Ctrl-C. Code that does not stop ends together with its kernel.',
  },
  'POST /v1/chats/{chat}/cells/{execution}/input': {
    description: 'The line, without a line end, for the last `input_request`.',
    request: { text: 'Ada' },
  },
  'POST /v1/chats/{chat}/tickets': {
    description: 'A browser cannot set headers on a WebSocket: it opens `url` instead, once.',
    response: { url: '/v1/chats/chat-a2b3c4d5e6f7g2h3i4j5k6l7m2/terminal?ticket=tkt_6mX0nPq2R8sV4wYz', expiresAt: at },
  },
  'GET /v1/chats/{chat}/terminal': {
    description: 'Binary frames are keystrokes and output; text frames are JSON: `resize`, `ready` and `exit`.',
  },
};
