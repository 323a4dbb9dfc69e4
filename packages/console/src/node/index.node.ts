export { BASE, PAGE_HEADERS, type PageFile, readPage, serverFiles } from './files.node.ts';
export { type FoundModel, findModels, type MissingModel, openModel } from './models.node.ts';
export type { Upstream } from './proxy.node.ts';
export {
  type ConsoleOptions,
  type ExampleGallery,
  type PlainCollection,
  type RunningConsole,
  startConsole,
} from './serve.node.ts';
