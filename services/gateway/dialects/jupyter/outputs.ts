import type { CodeBoxError, ExecutionEvent } from '#contract';
import { type Header, type ServerMessage, toMessage } from './messages.ts';

/** The code of a cell, and the options of the request. */
export interface CellRequest {
  header: Header;
  code: string;
  /** Whether only streams and errors are shown. */
  isSilent: boolean;
  storesHistory: boolean;
}

interface ReportedError {
  ename: string;
  evalue: string;
  traceback: string[];
}

/** The names of Python's own exceptions for the ends of a run that no code has raised. */
const endings = {
  timeout: 'TimeoutError',
  oom: 'MemoryError',
  interrupted: 'KeyboardInterrupt',
  killed: 'DeadKernelError',
  output_limit: 'RuntimeError',
  lost: 'DeadKernelError',
} as const;

type Part = [channel: 'iopub' | 'shell' | 'stdin', type: string, content: object];

const status = (execution_state: string): Part => ['iopub', 'status', { execution_state }];

/**
 * Translates the events of one run to the messages of a kernel. `origins` has the requests of earlier runs, whose threads may still write.
 */
export const createTranslation = (
  { header, code, isSilent, storesHistory }: CellRequest,
  origins: Pick<Map<string, Header>, 'get'>,
) => {
  let count = 0;
  let error: ReportedError | undefined;
  let user_expressions: Record<string, object> = {};
  let payload: object[] = [];

  const replyParts = (failure: ReportedError | undefined): Part[] => [
    [
      'shell',
      'execute_reply',
      { status: failure ? 'error' : 'ok', execution_count: count, ...failure, user_expressions, payload },
    ],
    status('idle'),
  ];

  const failParts = (failure: ReportedError): Part[] => [['iopub', 'error', failure], ...replyParts(failure)];

  const partsOf = (event: ExecutionEvent): Part[] => {
    switch (event.type) {
      case 'started':
        count = event.executionCount ?? 0;
        // Code that is not kept has the number of the code before it, but where it is shown itself.
        if (!storesHistory) count = Math.max(0, count - 1);
        if (isSilent) return [status('busy')];
        return [status('busy'), ['iopub', 'execute_input', { code, execution_count: event.executionCount ?? 0 }]];
      case 'stdout':
      case 'stderr':
        return [['iopub', 'stream', { name: event.type, text: event.text }]];
      case 'truncated':
        return [
          ['iopub', 'stream', { name: 'stderr', text: `[${event.droppedBytes} bytes of output were dropped]\n` }],
        ];
      case 'install':
        return [['iopub', 'stream', { name: 'stdout', text: event.text }]];
      case 'result':
        if (isSilent) return [];
        return [
          ['iopub', 'execute_result', { data: event.mime, metadata: event.metadata ?? {}, execution_count: count }],
        ];
      case 'display':
      case 'display_update': {
        const transient = event.displayId === undefined ? {} : { display_id: event.displayId };
        const type = event.type === 'display' ? 'display_data' : 'update_display_data';
        return [['iopub', type, { data: event.mime, metadata: event.metadata ?? {}, transient }]];
      }
      case 'clear':
        return [['iopub', 'clear_output', { wait: event.wait }]];
      case 'input_request':
        return [['stdin', 'input_request', { prompt: event.prompt, password: event.password }]];
      case 'error':
        error = { ename: event.name, evalue: event.value, traceback: event.traceback };
        return [['iopub', 'error', error]];
      case 'reply':
        user_expressions = event.expressions;
        payload = event.payload;
        return [];
      case 'done': {
        if (event.executionCount && storesHistory) count = event.executionCount;
        if (event.status === 'ok') return replyParts(undefined);
        if (error) return replyParts(error);
        const ename = event.status === 'error' ? 'RuntimeError' : endings[event.status];
        const evalue = event.cause?.detail ?? event.status;
        return failParts({ ename, evalue, traceback: [`${ename}: ${evalue}`] });
      }
    }
  };

  const toMessages = (parts: Part[], parent = header, id?: string): ServerMessage[] =>
    parts.map(([channel, type, content], at) =>
      toMessage(parent, { channel, type, content, ...(id !== undefined && { id: `${id}_${at}` }) }),
    );

  return {
    /** Returns the messages for one event of this execution, which have the same ids each time. */
    of: (execution: string, event: ExecutionEvent): ServerMessage[] => {
      const parent = 'origin' in event && event.origin !== undefined ? origins.get(event.origin) : undefined;
      return toMessages(partsOf(event), parent, `${execution}_${event.seq}`);
    },

    /** Returns the messages for code that could not be run. */
    failed: ({ code: ename, message }: CodeBoxError): ServerMessage[] =>
      toMessages([status('busy'), ...failParts({ ename, evalue: message, traceback: [`${ename}: ${message}`] })]),

    /** Returns the messages for code that is not run, because code before it has failed. */
    aborted: (): ServerMessage[] =>
      toMessages([
        status('busy'),
        ['shell', 'execute_reply', { status: 'aborted', execution_count: count }],
        status('idle'),
      ]),

    /** Returns the message after which all outputs are sent again. */
    cleared: (): ServerMessage[] => toMessages([['iopub', 'clear_output', { wait: false }]]),
  };
};

export type Translation = ReturnType<typeof createTranslation>;
