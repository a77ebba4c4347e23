import type { OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';

/** Texts about one operation in addition to its summary and schemas. */
interface OperationText {
  description: string;
  /** Example of the JSON request body, if it takes one. */
  request?: unknown;
  /** Example of a successful response: JSON, or one event of a stream. */
  response?: unknown;
}

/** By `METHOD /path`, or by the path alone when all its methods do the same. */
export type OperationTexts = Readonly<Record<string, OperationText>>;

type Document = ReturnType<OpenApiGeneratorV31['generateDocument']>;

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete'] as const;
const codeExamples: Record<string, string> = {
  'text/x-python': 'print("hello")\n6 * 7\n',
  'text/javascript': 'console.log("hello")\n6 * 7\n',
  'text/x-typescript': 'const answer: number = 6 * 7\nanswer\n',
  'application/x-sh': 'echo "hello"\nls -l\n',
};

/**
 * Adds a description and examples to each operation of the document, and an example to each path parameter by its name.
 */
export const withTexts = (document: Document, texts: OperationTexts, parameters: Record<string, unknown>): Document => {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of methods) {
      const operation = item[method];
      const text = texts[`${method.toUpperCase()} ${path}`] ?? texts[path];
      if (!operation || !text) continue;
      operation.description = text.description;
      for (const parameter of operation.parameters ?? [])
        if ('in' in parameter && parameter.in === 'path') parameter.example = parameters[parameter.name];
      const { requestBody } = operation;
      if (requestBody && 'content' in requestBody) {
        for (const [type, media] of Object.entries(requestBody.content)) {
          const example = type === 'application/json' ? text.request : codeExamples[type];
          if (example !== undefined) media.example = example;
        }
      }
      const responses = Object.values(operation.responses ?? {}) as {
        content?: Record<string, { example?: unknown }>;
      }[];
      const [media] = Object.values(responses.find(({ content }) => content !== undefined)?.content ?? {});
      if (media && text.response !== undefined) media.example = text.response;
    }
  }
  return document;
};
