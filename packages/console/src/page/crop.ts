// Parts of pictures, small, as texts that an image element shows and a payload can hold.

import type { Embedded } from './models.ts';

/** Of the side of a crop, in pixels. */
const SIDE = 112;
/** Around what was detected, in shares of it. */
const MARGIN = 0.25;
const QUALITY = 0.82;

/** What this page has made itself, or what a payload calls so: nothing that a browser would run. */
const PICTURE = /^data:image\/(?:jpeg|png|webp);base64,[A-Za-z\d+/]+=*$/;

/** Of a file: larger ones are no photographs, and take the page's memory. */
const MAX_BYTES = 64e6;
/** A small file can stand for a picture that no memory holds. */
const MAX_PIXELS = 100e6;
/** Of a side: what is larger is made smaller before anybody looks at it. */
const MAX_SIDE = 4096;

const unreadable = () => new Error('this is no picture that the browser can show');

/** As its head says: an element that is not shown decodes nothing. */
async function sizeOf(file: Blob): Promise<{ readonly width: number; readonly height: number }> {
  const url = URL.createObjectURL(file);
  const image = new Image();
  try {
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(unreadable());
      image.src = url;
    });
    return { width: image.naturalWidth, height: image.naturalHeight };
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** A picture as the browser shows it. An error says why it cannot. */
export async function openPicture(file: Blob): Promise<ImageBitmap> {
  if (file.size > MAX_BYTES) throw new Error(`this picture is larger than ${MAX_BYTES / 1e6} MB`);
  const { width, height } = await sizeOf(file);
  if (width * height > MAX_PIXELS) throw new Error(`this picture has more than ${MAX_PIXELS / 1e6} million pixels`);
  const whole = await createImageBitmap(file).catch(() => {
    throw unreadable();
  });
  const scale = MAX_SIDE / Math.max(whole.width, whole.height);
  if (scale >= 1) return whole;
  const size = (side: number) => Math.max(1, Math.round(side * scale));
  const [resizeWidth, resizeHeight] = [size(whole.width), size(whole.height)];
  try {
    return await createImageBitmap(whole, { resizeWidth, resizeHeight });
  } finally {
    whole.close();
  }
}

/** The part that a vector stands for, or the whole picture, as a square. */
export function cropOf(whole: ImageBitmap, { box }: Embedded): string {
  const around = box ?? { x: 0, y: 0, width: whole.width, height: whole.height };
  const side = Math.max(around.width, around.height) * (box ? 1 + 2 * MARGIN : 1);
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext('2d')!;
  const [left, top] = [around.x + (around.width - side) / 2, around.y + (around.height - side) / 2];
  const scale = SIDE / side;
  context.drawImage(whole, -left * scale, -top * scale, whole.width * scale, whole.height * scale);
  return canvas.toDataURL('image/jpeg', QUALITY);
}

/** The picture in a payload, if it has one. */
export function pictureIn(payload: unknown): string | undefined {
  const { picture } = (payload ?? {}) as { picture?: unknown };
  return typeof picture === 'string' && PICTURE.test(picture) ? picture : undefined;
}
