import type { z } from 'zod';
import type { Peer } from '../../../websockets/peer.ts';
import type { RawResponse } from '../../box-server/client.ts';
import type { JupyterRequest } from '../../box-server/jupyter.ts';
import { readResponse } from '../../box-server/protocol/response.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';

/**
 * The standard API of the Jupyter server in a box, for what has no use case of its own: notebooks as JSON, sessions, and messages of
 * kernels other than runs. Code has to be run by `executions`, and kernels started by `contexts`.
 */
export const createJupyter = ({ access, activity }: { access: Pick<Access, 'use'>; activity: Activity }) => {
  const request = async (ref: BoxRef, ask: JupyterRequest): Promise<RawResponse> => {
    const { server } = await access.use(ref);
    const release = activity.hold(ref.box);
    try {
      const response = await server.jupyter.request(ask);
      response.body.once('close', release);
      return response;
    } catch (error) {
      release();
      throw error;
    }
  };

  return {
    /** Makes a request; the caller reads the body. Throws the refusal of the server. */
    request,

    /** Makes a request and reads its response of a small JSON resource. Throws `unavailable` when that does not match `schema`. */
    async ask<T>(ref: BoxRef, ask: JupyterRequest, schema: z.ZodType<T>): Promise<{ status: number; value: T }> {
      const { status, body } = await request(ref, ask);
      return { status, value: await readResponse(schema, body) };
    },

    /** Opens the channels of a kernel. Throws `not_found`. */
    async channels(ref: BoxRef, kernel: string): Promise<Peer> {
      return await (await access.use(ref)).server.jupyter.channels(kernel);
    },
  };
};

export type Jupyter = ReturnType<typeof createJupyter>;
