// How a program without keys speaks to a server: the nodes of a cluster do.

export type { HttpOptions } from './connection.ts';
export { HttpService } from './http.ts';
export { fieldsOf, SMALL_BYTES } from './http-answer.ts';
export { wholeBody } from './http-body.ts';
