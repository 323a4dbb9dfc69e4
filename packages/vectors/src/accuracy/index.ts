export * from './evaluation.ts';
export * from './identification.ts';
export * from './rates.ts';
