import { type RefObject, useEffect, useRef, useState } from 'react';

type FrameMessage =
  | { type: 'ready' }
  | { type: 'height'; height: number }
  /** `of`: the content that could not be shown. */
  | { type: 'failed'; of?: unknown; detail: string };

const isFrameMessage = (data: unknown): data is FrameMessage => {
  if (typeof data !== 'object' || data === null || !('type' in data)) return false;
  if (data.type === 'height') return 'height' in data && Number.isFinite(data.height);
  if (data.type === 'failed') return 'detail' in data && typeof data.detail === 'string';
  return data.type === 'ready';
};

/**
 * Passes content to a document without an origin: once it requests it, and again when the content changes. Its messages
 * are hostile: only a height in pixels and an error text are accepted.
 */
export const useFrame = (frame: RefObject<HTMLIFrameElement | null>, content: object | string) => {
  const [height, setHeight] = useState<number | null>(null);
  const [failure, setFailure] = useState<{ content: object | string; detail: string } | null>(null);
  const isReady = useRef(false);
  useEffect(() => {
    // An opaque origin cannot be named as a target.
    const pass = () => frame.current?.contentWindow?.postMessage(content, '*');
    const listen = ({ source, origin, data }: MessageEvent<unknown>) => {
      if (origin !== 'null' || source === null || source !== frame.current?.contentWindow || !isFrameMessage(data))
        return;
      if (data.type === 'height') return setHeight(data.height);
      if (data.type === 'failed') {
        // Other content was passed meanwhile.
        if (data.of !== undefined && data.of !== content) return;
        // The error takes the place of the document; other content gets a new one.
        isReady.current = false;
        return setFailure({ content, detail: data.detail });
      }
      if (isReady.current) return;
      isReady.current = true;
      pass();
    };
    addEventListener('message', listen);
    if (isReady.current) pass();
    return () => removeEventListener('message', listen);
  }, [frame, content]);
  return { height, fault: failure?.content === content ? failure.detail : null };
};
