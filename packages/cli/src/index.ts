export { EXIT, type Exit } from './exit.ts';
export { makeProgram, run } from './program.ts';
export type { Surroundings } from './surroundings.ts';
