export type { Environment } from './environment.ts';
export { EXIT, type Exit } from './exit.ts';
export { makeProgram, run } from './program.ts';
