import { type TerminalMessage, terminalControlSchema, terminalNewsSchema } from '#contract';
import { readFrame } from '../../../http/frame.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { AttachedTerminal } from '../../boxes/reach/terminals.ts';

/**
 * Joins a client to a terminal of a box: bytes pass as they are, what the box tells is checked first. Each side is read only
 * as fast as the other takes it. `onError` is told of a box that breaks the protocol.
 */
export const bridgeTerminal = (client: Peer, attached: AttachedTerminal, onError: (error: unknown) => void): void => {
  const { id, peer: box } = attached;
  let isOver = false;

  const tell = (message: TerminalMessage) => client.send(JSON.stringify(message));
  const end = (code: number, reason: string) => {
    isOver = true;
    client.close(code, reason);
    box.close(closeCodes.normal, '');
  };

  const hear = async (text: Buffer) => {
    const news = readFrame(terminalNewsSchema, text);
    if ('faults' in news) {
      onError(new Error('a box sent an unknown frame of a terminal', { cause: news.faults }));
      return end(closeCodes.failed, 'The box sent something that makes no sense.');
    }
    const { value } = news;
    await tell(value.type === 'ready' ? { ...value, terminal: id } : value);
    if (value.type === 'exit') end(closeCodes.normal, 'The shell has ended.');
  };

  const control = async (text: Buffer) => {
    const frame = readFrame(terminalControlSchema, text);
    if ('value' in frame) return await box.send(JSON.stringify(frame.value));
    if (!client.tolerate()) return;
    await tell({
      type: 'error',
      code: 'invalid_request',
      detail: 'This is not a control frame.',
      errors: frame.faults,
    });
  };

  const loseBox = async () => {
    if (isOver || client.closed.aborted) return;
    const cause = await attached.whyGone().catch((error: unknown) => onError(error));
    const detail = cause?.detail ?? 'The box does not answer.';
    await tell({ type: 'error', code: cause ? 'gone' : 'unavailable', detail });
    client.close(cause ? closeCodes.goingAway : closeCodes.later, detail);
  };

  box.receive((data, isBinary) => (isBinary ? client.send(data) : hear(data)));
  client.receive((data, isBinary) => (isBinary ? box.send(data) : control(data)));
  client.closed.addEventListener('abort', () => box.close(closeCodes.normal, ''), { once: true });
  if (box.closed.aborted) void loseBox();
  else box.closed.addEventListener('abort', () => void loseBox(), { once: true });
};
