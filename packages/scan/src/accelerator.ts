// Everything that a kernel in another package builds on, such as that of `@hers/cuda`, and what
// measures the kernels beside a bound.

export { segmentBytes } from './builder.ts';
export { checkKernel } from './choose.ts';
export { checkComparable } from './kernel.ts';
export { checkedHead, layoutOf } from './native/native.ts';
export type { Deliver, NativeLayout, ScanRef } from './native/native-addon.ts';
export { batchesFrom, cutFile, NativeRun, resultsOf, type Steering } from './native/native-run.ts';
export { damagedPart } from './reference.ts';
export { isPacked, PANEL_ROWS, readFully, readHeader } from './segment.ts';
export { largest, mixed, type Residue, specimenBlock, specimenQuery } from './specimen.ts';
