export type { Environment } from './context.ts';
export { EXIT, type Exit } from './exit.ts';
export { makeProgram, run } from './program.ts';
