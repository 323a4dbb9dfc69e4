// Bytes as a picture: what a ciphertext looks like to whoever has no key.

import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const WIDTH = 192;
const HEIGHT = 64;

export function Noise({ bytes, label }: { readonly bytes: Uint8Array; readonly label: string }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    const image = context.createImageData(WIDTH, HEIGHT);
    for (let at = 0; at < WIDTH * HEIGHT; at++) {
      const isThere = at < bytes.length;
      image.data.fill(isThere ? bytes[at]! : 128, 4 * at, 4 * at + 3);
      image.data[4 * at + 3] = isThere ? 255 : 0;
    }
    context.putImageData(image, 0, 0);
  }, [bytes]);
  return <canvas ref={canvas} class="noise" width={WIDTH} height={HEIGHT} role="img" aria-label={label} />;
}
