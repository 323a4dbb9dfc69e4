export { BASE, PAGE_HEADERS, readPage, serverFiles } from './files.node.ts';
export { findModels, openModel } from './models.node.ts';
export { type ConsoleOptions, type ExampleGallery, type PlainCollection, startConsole } from './serve.node.ts';
