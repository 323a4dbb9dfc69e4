// How fetch behaves in Node.

/** Uploads can be streams, over HTTP/1.1. */
export const canStream = true;
/**
 * It says which encodings it accepts, and can be told not to; it shows how an answer was encoded.
 */
export const choosesEncoding = true;
/** A failure has a cause. */
export const saysWhy = true;
