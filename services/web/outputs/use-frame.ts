import { type RefObject, useEffect, useState } from 'react';

type FrameMessage = { type: 'ready' } | { type: 'height'; height: number } | { type: 'failed'; detail: string };

const isFrameMessage = (data: unknown): data is FrameMessage => {
  if (typeof data !== 'object' || data === null || !('type' in data)) return false;
  if (data.type === 'height') return 'height' in data && Number.isFinite(data.height);
  if (data.type === 'failed') return 'detail' in data && typeof data.detail === 'string';
  return data.type === 'ready';
};

/**
 * Passes content to a document without an origin, once, when it requests it. Its messages are hostile: only a height in
 * pixels and an error text are accepted.
 */
export const useFrame = (frame: RefObject<HTMLIFrameElement | null>, content: object) => {
  const [height, setHeight] = useState<number | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    let isFilled = false;
    const listen = ({ source, origin, data }: MessageEvent<unknown>) => {
      if (origin !== 'null' || source === null || source !== frame.current?.contentWindow || !isFrameMessage(data))
        return;
      if (data.type === 'height') return setHeight(data.height);
      if (data.type === 'failed') return setFault(data.detail);
      if (isFilled) return;
      isFilled = true;
      // An opaque origin cannot be named as a target.
      frame.current.contentWindow.postMessage(content, '*');
    };
    addEventListener('message', listen);
    return () => removeEventListener('message', listen);
  }, [frame, content]);
  return { height, fault };
};
