import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import { type Endpoint, proofOf } from './endpoint.ts';

const deadlineMs = 5000;
/** More than the answer of a box server has. */
const maxAnswerBytes = 4096;

const identitySchema = z.object({ instance: z.string(), proof: z.string() });

/**
 * Has the box server at the other end of a new connection prove that it is the instance that is meant, before anything else is
 * sent to it, the token included. Throws `unavailable` when it does not; the connection is then closed.
 */
export const requireIdentity = async (socket: Socket, endpoint: Endpoint): Promise<void> => {
  const challenge = randomBytes(16).toString('hex');
  try {
    const said = identitySchema.parse(JSON.parse(await ask(socket, `/codebox/identity?challenge=${challenge}`)));
    const [proof, wanted] = [said.proof, proofOf(endpoint.token, challenge)].map((text) => Buffer.from(text));
    const isProven = proof !== undefined && wanted !== undefined && proof.length === wanted.length;
    if (said.instance !== endpoint.instance || !isProven || !timingSafeEqual(proof, wanted))
      throw new Error(`another server answers at ${endpoint.address} in place of ${endpoint.instance}`);
  } catch (cause) {
    socket.destroy();
    throw new CodeBoxError('unavailable', 'The box does not answer.', { cause, retryAfterSeconds: 1 });
  }
};

/** One request on a connection that is used for others afterwards, so nothing may read past the end of its answer. */
const ask = (socket: Socket, path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const end = (error: Error | undefined, body = '') => {
      clearTimeout(late);
      socket.off('data', take).off('error', fail).off('close', close);
      socket.pause();
      if (error) reject(error);
      else resolve(body);
    };
    const late = setTimeout(() => end(new Error('it did not say who it is in time')), deadlineMs);
    const fail = (error: Error) => end(error);
    const close = () => end(new Error('it closed the connection'));
    const take = (data: Buffer) => {
      received = Buffer.concat([received, data]);
      if (received.length > maxAnswerBytes) return end(new Error('it said too much'));
      const headBytes = received.indexOf('\r\n\r\n') + 4;
      if (headBytes < 4) return;
      const head = received.toString('latin1', 0, headBytes);
      const bodyBytes = Number(/\r\ncontent-length: (\d{1,4})\r\n/i.exec(head)?.[1]);
      if (!head.startsWith('HTTP/1.1 200 ') || Number.isNaN(bodyBytes))
        return end(new Error('it did not say who it is'));
      if (received.length < headBytes + bodyBytes) return;
      if (received.length > headBytes + bodyBytes) return end(new Error('it said more than was asked'));
      end(undefined, received.toString('utf8', headBytes));
    };
    socket.on('data', take).on('error', fail).on('close', close);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  });
