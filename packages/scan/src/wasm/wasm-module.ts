// Compiles the WebAssembly module and makes instances of it, one for each thread, over one shared
// memory.

import { type KernelExports, kernelBase64 } from '../../build/kernel.ts';

/** Throws where WebAssembly has no 128-bit SIMD or no shared memory. */
export function compileModule(): WebAssembly.Module {
  return new WebAssembly.Module(Buffer.from(kernelBase64, 'base64'));
}

export function instantiate(module: WebAssembly.Module, memory: WebAssembly.Memory): KernelExports {
  return new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as KernelExports;
}
