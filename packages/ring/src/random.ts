// Fresh randomness from the platform (Web Crypto, in Node and in browsers).

/** 32 bytes from the platform's CSPRNG. */
export function randomSeed(): Uint8Array {
  return randomBytes(32);
}

export function randomBytes(length: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(length));
}
