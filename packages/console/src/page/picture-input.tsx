// Where pictures come from: files that are chosen, dropped or pasted, and the camera.

import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { messageOf } from './message.ts';
import { Dialog, Drop, Problem } from './parts.tsx';

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
        <label class={`button ${isBusy ? 'disabled' : ''}`}>
          Choose …
          <input
            type="file"
            class="hidden"
            accept="image/*"
            aria-label={label}
            multiple={isMany}
            disabled={isBusy}
            onChange={({ currentTarget }) => {
              take([...(currentTarget.files ?? [])]);
              currentTarget.value = '';
            }}
          />
        </label>
        <button type="button" disabled={isBusy} onClick={() => (isFilming.value = true)}>
          Camera
        </button>
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

/** What the camera sees. It is off again when this is gone. */
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
          <button type="button" class="main" disabled={!isOn.value} onClick={shoot}>
            Take it
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <span class="hint">The picture stays in this page.</span>
        </div>
      </div>
    </Dialog>
  );
}
