// A page brings its own runtime, or none.

import type { Runtime } from './compressor.ts';

export const runtime: Runtime | undefined = undefined;
