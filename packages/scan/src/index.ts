export { buildSegment, segmentBlocks, segmentBytes } from './builder.ts';
export { type KernelChoice, openKernel, registerKernel } from './choose.ts';
export {
  batchesOf,
  type DeviceUse,
  type KeptScan,
  type Kernel,
  type ScanOptions,
  type ScanResult,
  type SegmentHandle,
  type SegmentSource,
} from './kernel.ts';
export { type Isa, NativeKernel } from './native/native.ts';
export { returnFreedMemory } from './native/native-addon.ts';
export { ReferenceKernel } from './reference.ts';
export {
  decodeHeader,
  headerLength,
  LANES,
  panelRuns,
  rowBytes,
  type SegmentBlock,
  type SegmentHeader,
  takeRows,
} from './segment.ts';
export { WasmKernel } from './wasm/wasm.ts';
