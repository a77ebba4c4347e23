import {
  type CallToolResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
  type StandardSchemaWithJSON,
} from '@modelcontextprotocol/server';
import type { CodeBoxError } from '#contract';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import type { RouteParts } from '../../http/app.ts';
import { addFileTools } from './files.ts';
import { fileTemplate, readFile, toPath } from './resources.ts';
import { addRunTools } from './runs.ts';
import type { Call, ToolSpec } from './tool.ts';

const instructions = `A sandbox computer. Its working folder /mnt/data keeps files, and its kernels keep variables, between calls. \
Files that a run creates are returned as links; read them with resources/read or the tool read_file.`;

/** Returns the message of an error, with the faults that it does not name. */
export const messageOf = ({ message, errors }: CodeBoxError): string =>
  [
    message,
    ...errors.flatMap(({ pointer, detail }) => (pointer === '' ? [] : [`${pointer.slice(1)} ${detail}.`])),
  ].join(' ');

/** Creates the server that serves one message: its tools are those that the key of the caller permits. */
export const createServer = (call: Call, parts: RouteParts): McpServer => {
  const capabilities = { tools: { listChanged: false }, resources: { listChanged: false } };
  const server = new McpServer({ name: 'codebox', title: 'CodeBox', version: '1' }, { capabilities, instructions });

  const toError = (thrown: unknown): CodeBoxError => {
    const error = asCodeBoxError(thrown);
    if (error.code === 'internal' || error.code === 'unavailable') call.log.error({ err: thrown }, error.message);
    return error;
  };

  const addTool = <I extends StandardSchemaWithJSON, O extends StandardSchemaWithJSON>(
    { name, title, description, scope, input, output, annotations }: ToolSpec<I, O>,
    handle: (args: StandardSchemaWithJSON.InferOutput<I>, context: ServerContext) => Promise<CallToolResult>,
  ): void => {
    if (!call.mayUse(scope)) return;
    const config = { title, description, inputSchema: input, outputSchema: output, annotations };
    // The type of the arguments is computed from a schema that is generic here.
    server.registerTool<O, StandardSchemaWithJSON>(name, config, async (args, context) =>
      handle(args as StandardSchemaWithJSON.InferOutput<I>, context).catch(
        (thrown): CallToolResult => ({ content: [{ type: 'text', text: messageOf(toError(thrown)) }], isError: true }),
      ),
    );
  };

  addRunTools(addTool, call, parts);
  addFileTools(addTool, call, parts);

  const template = new ResourceTemplate(fileTemplate, { list: undefined });
  const about = { title: 'Files', description: 'A file in the working folder of the sandbox.' };
  server.registerResource('file', template, about, async ({ href }) => {
    try {
      if (!call.mayUse('files'))
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'This key lacks the scope files.');
      const path = toPath(href);
      const { bytes, text, mimeType } = await readFile(parts.files, await call.open(), path);
      return {
        contents: [{ uri: href, mimeType, ...(text === undefined ? { blob: bytes.toString('base64') } : { text }) }],
      };
    } catch (thrown) {
      if (thrown instanceof ProtocolError) throw thrown;
      const error = toError(thrown);
      if (error.code === 'not_found') throw new ResourceNotFoundError(href, error.message);
      const isTheirs = error.code === 'invalid_request' || error.code === 'too_large';
      const code = isTheirs ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
      throw new ProtocolError(code, messageOf(error));
    }
  });
  return server;
};
