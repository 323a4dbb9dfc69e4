// The CUDA addon (cuda/scan), and where it is.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Modulus } from '@hers/ring';
import type { Deliver, NativeLayout, ScanRef, Steering } from '@hers/scan/accelerator';

declare const kind: unique symbol;
type Opaque<Name extends string> = { readonly [kind]: Name };
export type DeviceRef = Opaque<'device'>;
export type CudaRingRef = Opaque<'ring'>;
export type CudaSegmentRef = Opaque<'segment'>;
export type CudaResponsesRef = Opaque<'responses'>;

export interface CudaDevice {
  readonly name: string;
  /** Bytes, in all and now free. */
  readonly memory: number;
  readonly free: number;
  /** The CUDA version of the driver: 13000 is 13.0. */
  readonly driver: number;
}

/** A query as the device takes it; none of its arrays may change before the scan has ended. */
export interface CudaQuery {
  readonly bits0: number;
  readonly bits1: number;
  readonly seed: Uint8Array;
  readonly head: Uint8Array;
  readonly rowCount: number;
  readonly rows: Uint32Array;
  /** The uniform halves of so many rows from row `width` on, which are not expanded. */
  readonly width: number;
  readonly givenCount: number;
  readonly given: Uint32Array;
}

export interface CudaAddon extends Steering {
  /** Throws an error that says what is missing. */
  openDevice(number: number): DeviceRef;
  closeDevice(device: DeviceRef): void;
  describeDevice(device: DeviceRef): CudaDevice;
  /** How fast memory of the device is copied within it: bytes read and written in a second. */
  copySpeed(device: DeviceRef, bytes: number): number;
  /** The same from pinned memory of the host to the device. */
  linkSpeed(device: DeviceRef, bytes: number): number;
  createRing(device: DeviceRef, n: number, moduli: readonly Modulus[]): CudaRingRef;
  /** The state of hers_cuda.h, the part that is damaged, what was wrong, and the segment. */
  loadSegment(
    ring: CudaRingRef,
    layout: NativeLayout,
    data: Uint8Array,
    inTurns: boolean,
  ): Promise<readonly [state: number, part: number, message: string, segment?: CudaSegmentRef]>;
  freeSegment(segment: CudaSegmentRef): void;
  startScan(
    ring: CudaRingRef,
    segments: readonly { readonly segment: CudaSegmentRef; readonly blocks: number }[],
    queries: readonly CudaQuery[],
    words: number,
    domain: number,
    deliver: Deliver,
    /** Whether responses stay on the device; then none are delivered. */
    keeps: boolean,
  ): ScanRef;
  /** Those of a scan that kept them and has ended well; once. */
  takeResponses(scan: ScanRef): CudaResponsesRef;
  forgetResponses(responses: CudaResponsesRef): void;
  /** What was wrong with a scan that has ended. */
  messageOf(scan: ScanRef): string;
}

/** Where `npm run build:cuda` puts it; the variable HERS_CUDA names another folder. */
const addonPath = () => join(process.env.HERS_CUDA || join(import.meta.dirname, '../build'), 'hers_cuda.node');

/** Whether it is there: only then is the kernel tried unasked. */
export function isCudaBuilt(): boolean {
  return existsSync(addonPath());
}

/** Throws an error that says why there is no addon. */
export function loadCudaAddon(path: string = addonPath()): CudaAddon {
  if (!existsSync(path)) throw new Error('the CUDA addon was not built, which takes nvcc and `npm run build:cuda`');
  const module = { exports: {} };
  process.dlopen(module, path);
  return module.exports as CudaAddon;
}
