import type { OperationTexts } from '../../../http/operation-texts.ts';
import { answer, at, attachment, chat, execution, model, pageOf } from './examples.ts';

/** Of chats and all that is in them. */
export const chatTexts: OperationTexts = {
  'GET /healthz': {
    description: 'For a liveness probe: answered as long as the process serves, whatever else fails.',
    response: { status: 'ok' },
  },
  'GET /readyz': {
    description:
      'For a readiness probe and what balances load: 503 when no chat could be had now, or the agent is stopping.',
    response: { status: 'ok' },
  },
  'GET /v1/info': {
    description: 'Needs no key. `hint` says what to set where no language model is configured.',
    response: { name: 'codebox-agent', isOpen: true, hasModel: true, hint: null, languages: ['python', 'javascript'] },
  },
  'POST /v1/chats': {
    description: 'Its box is made with its first question, or the first file. Everything may be left out.',
    request: { title: 'Sales', approval: 'never' },
    response: { ...chat, box: null },
  },
  'GET /v1/chats': {
    description: 'Those of the key, of its user where X-CodeBox-User names one, or of the visitor.',
    response: pageOf(chat),
  },
  'GET /v1/chats/{chat}': {
    description: '`running` is the id of the answer that is being made; `tokens` are of all answers.',
    response: chat,
  },
  'PATCH /v1/chats/{chat}': {
    description: 'Changes what is named. `"model": null` goes back to the default one.',
    request: { title: 'Sales of January', approval: 'always' },
    response: { ...chat, title: 'Sales of January', approval: 'always' },
  },
  'DELETE /v1/chats/{chat}': {
    description: 'An answer that is being made is stopped. Links to its files no longer work.',
  },
  'POST /v1/chats/{chat}/messages': {
    description:
      'Files are put into the chat before and named here. With `Accept: text/event-stream` or `application/x-ndjson` the answer comes ' +
      'as it is made: text, code, outputs, pictures and files.',
    request: { content: 'What is the mean of y?', files: ['table.csv'] },
    response: answer,
  },
  'GET /v1/chats/{chat}/messages': {
    description: 'A page of questions and answers, with code, outputs and files in order.',
    response: pageOf(answer),
  },
  'GET /v1/chats/{chat}/messages/{message}': {
    description: 'Of an answer that is being made `status` is `running`.',
    response: answer,
  },
  'GET /v1/chats/{chat}/messages/{message}/events': {
    description: 'Events are numbered from 1 by `seq`; `after`, or `Last-Event-ID`, is the last one that was read.',
    response: { seq: 2, type: 'text', text: 'The mean is ' },
  },
  'POST /v1/chats/{chat}/stop': {
    description: 'Code that runs for it is interrupted; what there is of the answer is kept.',
  },
  'POST /v1/chats/{chat}/approvals': {
    description: 'For chats with approval `always`. A `reason` for declining is told to the model.',
    request: { call: 'call-1', approved: false, reason: 'Do not delete files.' },
  },
  'GET /v1/models': {
    description: 'Of all providers that are configured, in the form that clients of OpenAI read.',
    response: {
      object: 'list',
      data: [
        { id: model, object: 'model', owned_by: 'openai', created: 1_769_860_800, needsKey: false, isDefault: true },
      ],
      hint: null,
    },
  },
  'GET /v1/chats/{chat}/files': {
    description: 'Of the working folder, or the one that `path` names. A link is good for an hour, without a key.',
    response: pageOf({
      path: 'table.csv',
      name: 'table.csv',
      type: 'file',
      sizeBytes: 18,
      modifiedAt: at,
      url: attachment.url,
    }),
  },
  'POST /v1/chats/{chat}/files': {
    description: 'Of a table the answer has the columns with their types, which the model is told too; no values.',
    response: { items: [{ ...attachment, preview: 'x: int64, y: int64' }] },
  },
  'GET /v1/chats/{chat}/files/{path}': {
    description: 'A path is relative to the working folder, /mnt/data.',
  },
  'HEAD /v1/chats/{chat}/files/{path}': {
    description: 'The same headers as of a GET, without the bytes.',
  },
  'PUT /v1/chats/{chat}/files/{path}': {
    description: 'The body is the file, as a stream. It is seen by code when it is whole.',
    response: { ...attachment, preview: null },
  },
  'DELETE /v1/chats/{chat}/files/{path}': {
    description: '404 when there is none. What was kept of it as an artifact stays.',
  },
  'POST /v1/chats/{chat}/artifacts': {
    description: 'The agent keeps the copy with the chat, so it outlives the box.',
    request: { path: 'plot.png' },
    response: { ...attachment, path: 'plot.png', name: 'plot.png', mime: 'image/png' },
  },
  'GET /v1/files/{path}': {
    description: 'Needs no key: whoever has the link has the file, for as long as the link is good.',
  },
  'HEAD /v1/files/{path}': {
    description: 'The same headers as of a GET, without the bytes. Needs no key.',
  },
  'POST /v1/chats/{chat}/cells': {
    description:
      'In the same kernel that code of answers runs in, without a model. It may run beside no answer that runs code.',
    request: { code: '6 * 7', language: 'python' },
    response: execution,
  },
  'POST /v1/chats/{chat}/cells/{execution}/interrupt': {
    description: 'As Ctrl-C does. What does not stop is stopped with its kernel.',
  },
  'POST /v1/chats/{chat}/cells/{execution}/input': {
    description: 'The line, without its end, for the `input_request` that was last.',
    request: { text: 'Ada' },
  },
  'POST /v1/chats/{chat}/tickets': {
    description: 'A browser cannot set headers on a WebSocket: it opens `url` instead, once.',
    response: { url: '/v1/chats/chat-a2b3c4d5e6f7g2h3i4j5k6l7m2/terminal?ticket=tkt_6mX0nPq2R8sV4wYz', expiresAt: at },
  },
  'GET /v1/chats/{chat}/terminal': {
    description: 'Binary frames are what is typed and shown; text frames are JSON: `resize`, `ready` and `exit`.',
  },
};
