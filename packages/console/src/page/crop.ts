// Parts of pictures, small, as texts that an image element shows and a payload can hold.

import type { Embedded } from './models.ts';

/** Of the side of a crop, in pixels. */
const SIDE = 112;
/** Around what was detected, in shares of it. */
const MARGIN = 0.25;
const QUALITY = 0.82;

/** What this page has made itself, or what a payload calls so: nothing that a browser would run. */
const PICTURE = /^data:image\/(?:jpeg|png|webp);base64,[A-Za-z\d+/]+=*$/;

/** The part that a vector stands for, or the whole picture, as a square. */
export async function cropOf(picture: Blob, { box }: Embedded): Promise<string> {
  const whole = await createImageBitmap(picture);
  try {
    const around = box ?? { x: 0, y: 0, width: whole.width, height: whole.height };
    const side = Math.max(around.width, around.height) * (box ? 1 + 2 * MARGIN : 1);
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = SIDE;
    const context = canvas.getContext('2d')!;
    const [left, top] = [around.x + (around.width - side) / 2, around.y + (around.height - side) / 2];
    const scale = SIDE / side;
    context.drawImage(whole, -left * scale, -top * scale, whole.width * scale, whole.height * scale);
    return canvas.toDataURL('image/jpeg', QUALITY);
  } finally {
    whole.close();
  }
}

/** The picture in a payload, if it has one. */
export function pictureIn(payload: unknown): string | undefined {
  const { picture } = (payload ?? {}) as { picture?: unknown };
  return typeof picture === 'string' && PICTURE.test(picture) ? picture : undefined;
}
