// Faces by @vladmandic/face-api: a detector, 68 landmarks to align by, and 128 numbers a face.
//
// The library draws on canvases of a page; a worker has none. It is given tensors instead, for
// which it needs none. It runs on a GPU through WebGL where there is one, and else in JavaScript.

import type { Embedded, LoadModel } from './model.ts';

interface Tensor {
  dispose(): void;
}

interface Face {
  readonly detection: {
    readonly box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
  };
  readonly descriptor: Float32Array;
}

interface Net {
  loadFromUri(uri: string): Promise<void>;
}

/** What is used of the library. */
export interface FaceLibrary {
  readonly env: { setEnv(environment: object): void };
  readonly tf: {
    setBackend(name: string): Promise<boolean>;
    ready(): Promise<void>;
    tensor3d(values: Int32Array, shape: readonly number[], type: 'int32'): Tensor;
  };
  readonly nets: Readonly<Record<'tinyFaceDetector' | 'faceLandmark68Net' | 'faceRecognitionNet', Net>>;
  readonly TinyFaceDetectorOptions: new (options: {
    readonly inputSize: number;
    readonly scoreThreshold: number;
  }) => object;
  detectAllFaces(
    input: Tensor,
    options: object,
  ): { withFaceLandmarks(): { withFaceDescriptors(): Promise<readonly Face[]> } };
}

/** Larger pictures are made smaller first: the detector looks at 416 pixels anyway. */
const MAX_SIDE = 800;
const DETECTOR = { inputSize: 416, scoreThreshold: 0.5 };

class None {}

/** What the library asks a page for; with tensors, it never makes one. */
const ENVIRONMENT = {
  Canvas: None,
  CanvasRenderingContext2D: None,
  Image: None,
  ImageData: None,
  Video: None,
  createCanvasElement: () => new None(),
  createImageElement: () => new None(),
  createVideoElement: () => new None(),
  fetch: (address: string, init?: RequestInit) => fetch(address, init),
  readFile: () => Promise.reject(new Error('there are no files here')),
};

/** WebGL that is emulated on the CPU takes longer than JavaScript does. */
function hasGpu(): boolean {
  return new OffscreenCanvas(1, 1).getContext('webgl2', { failIfMajorPerformanceCaveat: true }) !== null;
}

export function facesModel(library: FaceLibrary): LoadModel {
  return async (base) => {
    const { env, tf, nets } = library;
    env.setEnv(ENVIRONMENT);
    if (!(hasGpu() && (await tf.setBackend('webgl')))) await tf.setBackend('cpu');
    await tf.ready();
    const weights = new URL('model', base).href;
    const { tinyFaceDetector, faceLandmark68Net, faceRecognitionNet } = nets;
    await Promise.all([tinyFaceDetector, faceLandmark68Net, faceRecognitionNet].map((net) => net.loadFromUri(weights)));
    return {
      async embed(input) {
        if (typeof input === 'string') throw new Error('this model takes pictures');
        const scale = Math.min(1, MAX_SIDE / Math.max(input.width, input.height));
        const [width, height] = [Math.ceil(input.width * scale), Math.ceil(input.height * scale)];
        const pixels = tf.tensor3d(rgbOf(input, width, height), [height, width, 3], 'int32');
        try {
          const options = new library.TinyFaceDetectorOptions(DETECTOR);
          const faces = await library.detectAllFaces(pixels, options).withFaceLandmarks().withFaceDescriptors();
          return faces.map((face) => embeddedOf(face, scale)).sort((a, b) => areaOf(b) - areaOf(a));
        } finally {
          pixels.dispose();
        }
      },
    };
  };
}

const areaOf = ({ box }: Embedded) => (box ? box.width * box.height : 0);

function embeddedOf({ detection, descriptor }: Face, scale: number): Embedded {
  const { x, y, width, height } = detection.box;
  return {
    vector: Float32Array.from(descriptor),
    box: { x: x / scale, y: y / scale, width: width / scale, height: height / scale },
  };
}

function rgbOf(picture: ImageBitmap, width: number, height: number): Int32Array {
  const context = new OffscreenCanvas(width, height).getContext('2d')!;
  context.drawImage(picture, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const rgb = new Int32Array(3 * width * height);
  for (let at = 0; at < width * height; at++)
    for (let colour = 0; colour < 3; colour++) rgb[3 * at + colour] = data[4 * at + colour]!;
  return rgb;
}
