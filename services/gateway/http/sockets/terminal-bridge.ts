import { type TerminalMessage, terminalControlSchema, terminalNewsSchema } from '#contract';
import { readFrame } from '../../../http/bodies/frame.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { AttachedTerminal } from '../../boxes/reach/terminals.ts';

/**
 * Connects a client to a terminal of a box. Bytes pass unchanged; control messages of the box are validated first. Each side is read only
 * as fast as the other one reads. A violation of the protocol by the box is reported to `onError`.
 */
export const bridgeTerminal = (client: Peer, attached: AttachedTerminal, onError: (error: unknown) => void): void => {
  const { id, peer: box } = attached;
  let isOver = false;

  const send = (message: TerminalMessage) => client.send(JSON.stringify(message));
  const end = (code: number, reason: string) => {
    isOver = true;
    client.close(code, reason);
    box.close(closeCodes.normal, '');
  };

  const forwardFromBox = async (text: Buffer) => {
    const frame = readFrame(terminalNewsSchema, text);
    if ('faults' in frame) {
      onError(new Error('a box sent an unknown terminal frame', { cause: frame.faults }));
      return end(closeCodes.failed, 'The box sent an invalid terminal message.');
    }
    const { value } = frame;
    await send(value.type === 'ready' ? { ...value, terminal: id } : value);
    if (value.type === 'exit') end(closeCodes.normal, 'The shell has ended.');
  };

  const forwardFromClient = async (text: Buffer) => {
    const frame = readFrame(terminalControlSchema, text);
    if ('value' in frame) return await box.send(JSON.stringify(frame.value));
    if (!client.tolerate()) return;
    await send({
      type: 'error',
      code: 'invalid_request',
      detail: 'This text frame is not a valid control message.',
      errors: frame.faults,
    });
  };

  const onBoxLost = async () => {
    if (isOver || client.closed.aborted) return;
    const cause = await attached.causeOfLoss().catch((error: unknown) => onError(error));
    const detail = cause?.detail ?? 'The box does not respond.';
    await send({ type: 'error', code: cause ? 'gone' : 'unavailable', detail });
    client.close(cause ? closeCodes.goingAway : closeCodes.later, detail);
  };

  box.receive((data, isBinary) => (isBinary ? client.send(data) : forwardFromBox(data)));
  client.receive((data, isBinary) => (isBinary ? box.send(data) : forwardFromClient(data)));
  client.closed.addEventListener('abort', () => box.close(closeCodes.normal, ''), { once: true });
  if (box.closed.aborted) void onBoxLost();
  else box.closed.addEventListener('abort', () => void onBoxLost(), { once: true });
};
