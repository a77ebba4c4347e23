import { type RefObject, useEffect, useState } from 'react';

type Told = { type: 'ready' } | { type: 'height'; height: number } | { type: 'failed'; detail: string };

const isTold = (data: unknown): data is Told => {
  if (typeof data !== 'object' || data === null || !('type' in data)) return false;
  if (data.type === 'height') return 'height' in data && Number.isFinite(data.height);
  if (data.type === 'failed') return 'detail' in data && typeof data.detail === 'string';
  return data.type === 'ready';
};

/**
 * Fills a document without an origin, once, when it asks for its content. What it says is hostile: all that is taken is a height, in
 * pixels, and why it failed.
 */
export const useFrame = (frame: RefObject<HTMLIFrameElement | null>, content: object) => {
  const [height, setHeight] = useState<number | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    let isFilled = false;
    const listen = ({ source, origin, data }: MessageEvent<unknown>) => {
      if (origin !== 'null' || source === null || source !== frame.current?.contentWindow || !isTold(data)) return;
      if (data.type === 'height') return setHeight(data.height);
      if (data.type === 'failed') return setFault(data.detail);
      if (isFilled) return;
      isFilled = true;
      // A document of no origin can be named by no origin.
      frame.current.contentWindow.postMessage(content, '*');
    };
    addEventListener('message', listen);
    return () => removeEventListener('message', listen);
  }, [frame, content]);
  return { height, fault };
};
