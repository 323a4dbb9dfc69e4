export { BASE, PAGE_HEADERS, type PageFile, readPage, serverSession } from './files.node.ts';
export type { Upstream } from './proxy.node.ts';
export { type ConsoleOptions, type RunningConsole, startConsole } from './serve.node.ts';
