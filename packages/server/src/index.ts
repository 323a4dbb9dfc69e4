export { type AppOptions, makeApp } from './app.ts';
export { LIMITS, type Limits } from './limits.ts';
