import type { Hono } from 'hono';
import { accepts } from 'hono/accepts';
import { CodeBoxError, type ErrorCode, errorCodes } from '#contract';
import type { HttpEnv } from '../env.ts';
import { problemKinds } from './kinds.ts';
import { reasonsOf } from './reasons.ts';

const types = { html: 'text/html', json: 'application/json', markdown: 'text/markdown' };

/** The path of the page about a kind of problem, which is the `type` of each such problem. */
export const problemPath = (code: ErrorCode): string => `/problems/${code}`;

const section = (code: ErrorCode): string => {
  const { status, title, meaning, causes, remedy } = problemKinds[code];
  const list = causes.map((cause) => `- ${cause}`).join('\n');
  const reasons = reasonsOf(code).map((of) => `- \`${of.reason}\`: ${of.meaning}`);
  const values = reasons.length > 0 ? `Values of \`reason\`:\n\n${reasons.join('\n')}\n\n` : '';
  return `## ${code}\n\n${status} ${title}. ${meaning}\n\nUsual causes:\n\n${list}\n\n${values}What to do: ${remedy}\n`;
};

/** All kinds of problems as one page of Markdown. */
export const problemsMarkdown = (): string =>
  [
    '# Errors\n',
    'The response to a failed request is `application/problem+json` (RFC 9457). Programs branch on `code`, and on `reason` where a code has',
    'several; both are closed lists, and most errors have no `reason`. `detail` is for people, `errors` has a JSON pointer to each fault in',
    'the input, `requestId` identifies the request in the log of the service, and `type` is a path of the same server that serves the text',
    'below as a page, as Markdown or as JSON.\n',
    '| code | status | meaning |',
    '|---|---|---|',
    ...errorCodes.map(
      (code) => `| [${code}](#${code}) | ${problemKinds[code].status} | ${problemKinds[code].meaning} |`,
    ),
    '',
    ...errorCodes.map(section),
  ].join('\n');

const marks: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const toHtml = (text: string): string =>
  text.replaceAll(/[&<>"]/g, (mark) => marks[mark] ?? mark).replaceAll(/`([^`]+)`/g, '<code>$1</code>');

const article = (code: ErrorCode): string => {
  const { status, title, meaning, causes, remedy } = problemKinds[code];
  const list = causes.map((cause) => `<li>${toHtml(cause)}</li>`).join('');
  const reasons = reasonsOf(code).map((of) => `<li><code>${of.reason}</code>: ${toHtml(of.meaning)}</li>`);
  const values = reasons.length > 0 ? `<h2>Values of <code>reason</code></h2><ul>${reasons.join('')}</ul>` : '';
  return `<h1>${code}</h1><p>${status} ${title}. ${toHtml(meaning)}</p><h2>Usual causes</h2><ul>${list}</ul>${values}<h2>What to do</h2><p>${toHtml(remedy)}</p>`;
};

const page = (title: string, content: string): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<link rel="icon" href="data:,"><style>body{font:16px/1.5 system-ui,sans-serif;max-width:42em;margin:2em auto;padding:0 1em}</style></head>
<body>${content}<p><a href="/problems">All errors</a> · <a href="/docs">All calls</a></p></body></html>
`;

/** `/problems`, and a page for each kind: HTML for a browser, JSON on request, otherwise Markdown. None needs a key. */
export const addProblemPages = <E extends HttpEnv>(app: Hono<E>): void => {
  app.get('/problems/:code?', (c) => {
    c.set('route', '/problems/{code}');
    const given = c.req.param('code');
    const code = errorCodes.find((one) => one === given);
    if (given !== undefined && code === undefined)
      throw new CodeBoxError('not_found', 'No problem has this code; /problems lists all of them.');
    c.header('Vary', 'Accept');
    c.header(
      'Content-Security-Policy',
      "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
    );
    const type = accepts(c, { header: 'Accept', supports: Object.values(types), default: types.markdown });
    if (type === types.json)
      return c.json(code ? { code, ...problemKinds[code], reasons: reasonsOf(code) } : problemKinds);
    if (type === types.html) {
      const list = errorCodes.map(
        (one) => `<li><a href="${problemPath(one)}">${one}</a>: ${toHtml(problemKinds[one].meaning)}</li>`,
      );
      return c.html(code ? page(code, article(code)) : page('Errors', `<h1>Errors</h1><ul>${list.join('')}</ul>`));
    }
    const text = code ? section(code) : problemsMarkdown();
    return c.body(text, 200, { 'Content-Type': 'text/markdown; charset=utf-8' });
  });
};
