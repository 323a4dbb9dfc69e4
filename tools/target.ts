// What a build makes, and how it can fail.

/** One generated file. A kind of file is a function that returns a `Target`. */
export interface Target {
  /** The generated file. */
  output: string;
  /** The folder whose files it is made from, all of them. */
  sources: string;
  /** Other folders that these take something from. */
  besides?: readonly string[];
  /** Everything else that its content depends on: options, versions. */
  recipe: string;
  /**
   * The content, which must hold `stamp` somewhere. Throws a `BuildError` when the sources do not
   * compile, and `Unavailable` when nothing here can.
   */
  make(stamp: string): Promise<string | Uint8Array>;
}

/** The sources do not compile; the message is the compiler's. */
export class BuildError extends Error {}

/**
 * What would compile the sources is not there, and the program does without; the message says what
 * it does instead.
 */
export class Unavailable extends Error {}
