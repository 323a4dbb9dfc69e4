// Pictures: from files that are chosen, dropped or pasted, and the camera; and small parts of them.

import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Embedded } from './models.ts';
import { Button, Dialog, Drop, FileButton, Problem } from './parts.tsx';
import { messageOf } from './text.ts';

interface PictureInputProps {
  readonly label: string;
  readonly isMany?: boolean;
  readonly isBusy: boolean;
  readonly onPictures: (pictures: readonly File[]) => void;
  /** Why what was chosen, dropped or pasted is not taken. */
  readonly onProblem: (problem: string) => void;
}

const isPicture = ({ type }: { readonly type: string }) => type.startsWith('image/');

export function PictureInput({ label, isMany = false, isBusy, onPictures, onProblem }: PictureInputProps): JSX.Element {
  const isFilming = useSignal(false);
  const take = (files: readonly File[]) => {
    if (isBusy || files.length === 0) return;
    const pictures = files.filter(isPicture);
    if (pictures.length > 0) onPictures(isMany ? pictures : pictures.slice(0, 1));
    else onProblem(`${files[0]!.name} is no picture.`);
  };
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (!files.some(isPicture)) return;
      event.preventDefault();
      latest.current(files);
    };
    addEventListener('paste', paste);
    return () => removeEventListener('paste', paste);
  }, []);
  return (
    <Drop class="drop" onFiles={take}>
      <span class="faint">Drop or paste {isMany ? 'pictures' : 'a picture'} here, or</span>
      <div class="actions">
        <FileButton
          text="Choose …"
          accept="image/*"
          aria-label={label}
          multiple={isMany}
          disabled={isBusy}
          onFiles={take}
        />
        <Button disabled={isBusy} onClick={() => (isFilming.value = true)}>
          Camera
        </Button>
      </div>
      {isFilming.value ? (
        <Camera
          onClose={() => (isFilming.value = false)}
          onPicture={(picture) => {
            isFilming.value = false;
            take([picture]);
          }}
        />
      ) : null}
    </Drop>
  );
}

interface CameraProps {
  readonly onClose: () => void;
  readonly onPicture: (picture: File) => void;
}

function Camera({ onClose, onPicture }: CameraProps): JSX.Element {
  const video = useRef<HTMLVideoElement>(null);
  const problem = useSignal<string | undefined>(undefined);
  const isOn = useSignal(false);
  useEffect(() => {
    let stream: MediaStream | undefined;
    let isGone = false;
    const end = () => {
      for (const track of stream?.getTracks() ?? []) track.stop();
    };
    const begin = async () => {
      try {
        // Where the page is not from this machine or by TLS, browsers hide their cameras.
        if (!navigator.mediaDevices) throw new Error('there is no camera for pages without TLS');
        stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 } } });
        if (isGone) return end();
        video.current!.srcObject = stream;
        await video.current!.play();
        isOn.value = true;
      } catch (error) {
        if (!isGone) problem.value = messageOf(error);
      }
    };
    void begin();
    return () => {
      isGone = true;
      end();
    };
  }, []);
  const shoot = () => {
    const { videoWidth, videoHeight } = video.current!;
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [videoWidth, videoHeight];
    canvas.getContext('2d')!.drawImage(video.current!, 0, 0);
    canvas.toBlob((blob) => blob && onPicture(new File([blob], 'camera.png', { type: blob.type })), 'image/png');
  };
  return (
    <Dialog title="Camera" onClose={onClose}>
      <div class="stack">
        <video ref={video} class="camera" playsInline muted aria-label="what the camera sees" />
        <Problem text={problem.value} />
        <div class="actions">
          <Button class="main" disabled={!isOn.value} onClick={shoot}>
            Take it
          </Button>
          <Button onClick={onClose}>Cancel</Button>
          <span class="hint">The picture stays in this page.</span>
        </div>
      </div>
    </Dialog>
  );
}

// Parts of pictures, small, as texts that an image element shows and a payload can hold.

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
