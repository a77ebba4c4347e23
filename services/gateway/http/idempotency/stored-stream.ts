/**
 * Passes a streamed response on, and calls `onEnd` with all that was sent: null when that is longer than `maxBytes`, undefined when the
 * stream broke. A client that leaves does not stop the stream, which is then read to its end.
 */
export const storeStream = (
  response: Response,
  maxBytes: number,
  onEnd: (text: string | null | undefined, contentType: string | null) => Promise<void>,
): Response => {
  if (!response.body) throw new Error('a stream has a body');
  const reader = response.body.getReader();
  let chunks: Uint8Array[] | null = [];
  let bytes = 0;

  /** Reads on; undefined at the end, before which the response is stored. */
  const read = async (): Promise<Uint8Array | undefined> => {
    const { done, value } = await reader.read().catch(async (error: unknown) => {
      await onEnd(undefined, null);
      throw error;
    });
    if (done) {
      await onEnd(chunks && Buffer.concat(chunks).toString(), response.headers.get('content-type'));
      return undefined;
    }
    bytes += value.length;
    if (bytes > maxBytes) chunks = null;
    chunks?.push(value);
    return value;
  };

  const readOn = async () => {
    while (await read());
  };

  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const value = await read();
        if (value) controller.enqueue(value);
        else controller.close();
      },
      // The failure of the stream is stored.
      cancel: () => void readOn().catch(() => {}),
    },
    { highWaterMark: 0 },
  );
  return new Response(body, response);
};
