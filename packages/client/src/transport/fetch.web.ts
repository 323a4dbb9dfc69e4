// How fetch behaves in browsers.

import type { Answered } from './http-answer.ts';

/** Over HTTP/1.1 a body must be whole. */
export const canStream = false;
/** The browser chooses encodings, and answers come decoded. */
export const choosesEncoding = false;
/** A page does not learn why a fetch failed. */
export const saysWhy = false;
/** A page has nothing but fetch. */
export const fetchLarge: ((url: string, init: RequestInit) => Promise<Answered>) | undefined = undefined;
