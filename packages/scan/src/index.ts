export { type BuildOptions, buildSegment, segmentBlocks, segmentBytes } from './builder.ts';
export { type KernelChoice, type KernelOptions, openKernel, type RegisteredKernel, registerKernel } from './choose.ts';
export {
  batchesOf,
  type DeviceUse,
  KERNEL_NAMES,
  type KeptScan,
  type Kernel,
  type KernelName,
  type ScanOptions,
  type ScanResult,
  type SegmentHandle,
  type SegmentSource,
} from './kernel.ts';
export { type Isa, NativeKernel, type NativeOptions, type NativeTimes } from './native/native.ts';
export { returnFreedMemory } from './native/native-addon.ts';
export { ReferenceKernel } from './reference.ts';
export {
  decodeHeader,
  headerLength,
  LANES,
  MAX_SEGMENT_BLOCKS,
  panelRuns,
  rowBytes,
  type SegmentBlock,
  type SegmentHeader,
  takeRows,
} from './segment.ts';
export { WasmKernel, type WasmOptions } from './wasm/wasm.ts';
export type { WasmTimes } from './wasm/wasm-stage.ts';
