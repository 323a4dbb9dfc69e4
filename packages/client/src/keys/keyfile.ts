// A key file: the master seed behind a passphrase (scrypt, AES-256-GCM), or in the open when that
// is asked for. JSON, the same in Node and in a browser.

import { MasterSeed } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import { scryptAsync } from '@noble/hashes/scrypt.js';
import { fromHex, hex } from '../bytes.ts';
import { seal, WebSealer } from '../sealing/sealing.ts';

interface KeyFile {
  readonly format: 'hers-key';
  readonly version: 1;
  readonly scrypt?: { readonly N: number; readonly r: number; readonly p: number; readonly salt: string };
  readonly sealed?: string;
  /** Only in files that were asked to be unsealed. */
  readonly seed?: string;
}

/** 128 MiB and about half a second. */
const COST = { N: 2 ** 17, r: 8, p: 1 };
/** Files that ask for more work than this are refused rather than tried. */
const MAX_SCRYPT = { N: 2 ** 20, r: 16, p: 4 };
const ASSOCIATED_DATA = new TextEncoder().encode('hers-key 1');

async function sealerFor(passphrase: string, scrypt: NonNullable<KeyFile['scrypt']>): Promise<WebSealer> {
  const { N, r, p } = scrypt;
  const secret = new TextEncoder().encode(passphrase.normalize('NFKC'));
  try {
    const key = await scryptAsync(secret, fromHex(scrypt.salt), { N, r, p, dkLen: 32, maxmem: 2 ** 31 });
    const sealer = new WebSealer(key);
    key.fill(0);
    return sealer;
  } finally {
    secret.fill(0);
  }
}

/**
 * The text of a key file that a passphrase seals.
 *
 * @param seed - The key.
 * @param passphrase - What opens it again.
 * @param cost - scrypt's N, for tests; the default is what people should use.
 * @throws {HersError} INVALID_ARGUMENT: for an empty passphrase.
 * @throws {HersError} WIPED: for a key that was wiped.
 * @example
 * await writeFile('hers.key', await sealKey(key, passphrase), { mode: 0o600 });
 */
export async function sealKey(seed: MasterSeed, passphrase: string, cost: number = COST.N): Promise<string> {
  if (passphrase.length === 0)
    throw new HersError(
      'INVALID_ARGUMENT',
      'the passphrase is empty; for a key file without one, ask for an unsealed key',
    );
  const scrypt = { ...COST, N: cost, salt: hex(crypto.getRandomValues(new Uint8Array(16))) };
  const sealer = await sealerFor(passphrase, scrypt);
  const bytes = seed.reveal();
  try {
    const sealed = hex(await seal(sealer, bytes, ASSOCIATED_DATA));
    return `${JSON.stringify({ format: 'hers-key', version: 1, scrypt, sealed } satisfies KeyFile, null, 2)}\n`;
  } finally {
    bytes.fill(0);
    sealer.wipe();
  }
}

/**
 * A key file anyone can use who can read it. Text cannot be overwritten: it stays in memory until
 * that is used again.
 *
 * @param seed - The key.
 * @throws {HersError} WIPED: for a key that was wiped.
 */
export function unsealedKey(seed: MasterSeed): string {
  const bytes = seed.reveal();
  const text = hex(bytes);
  bytes.fill(0);
  return `${JSON.stringify({ format: 'hers-key', version: 1, seed: text } satisfies KeyFile, null, 2)}\n`;
}

function parse(text: string): KeyFile {
  const fail = (): never => {
    throw new HersError('MALFORMED', 'this is not a HERS key file');
  };
  let file: KeyFile;
  try {
    file = JSON.parse(text);
  } catch {
    return fail();
  }
  if (file === null || typeof file !== 'object' || file.format !== 'hers-key') return fail();
  if (file.version !== 1)
    throw new HersError('UNSUPPORTED_VERSION', 'this key file is in another format; use the version that wrote it');
  const isHex = (x: unknown): x is string => typeof x === 'string' && /^([0-9a-f]{2})+$/.test(x);
  if (file.seed !== undefined) return isHex(file.seed) && file.seed.length === 64 ? file : fail();
  const { scrypt } = file;
  if (!isHex(file.sealed) || scrypt === null || typeof scrypt !== 'object' || !isHex(scrypt.salt)) return fail();
  for (const name of ['N', 'r', 'p'] as const) {
    if (!(Number.isInteger(scrypt[name]) && scrypt[name] >= 1 && scrypt[name] <= MAX_SCRYPT[name])) return fail();
  }
  return (scrypt.N & (scrypt.N - 1)) === 0 && scrypt.N > 1 ? file : fail();
}

/**
 * Whether a key file needs a passphrase.
 *
 * @param text - The text of a key file.
 * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for what is no key file, or of another
 *   format.
 */
export function isSealed(text: string): boolean {
  return parse(text).sealed !== undefined;
}

/** Overwrites the bytes. */
function seedOf(bytes: Uint8Array): MasterSeed {
  try {
    return MasterSeed.from(bytes);
  } finally {
    bytes.fill(0);
  }
}

/**
 * Opens the master seed in a key file.
 *
 * @param text - The text of a key file.
 * @param passphrase - For one that is sealed.
 * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for what is no key file, or of another
 *   format.
 * @throws {HersError} WRONG_KEY: for a wrong passphrase, which cannot be told from a damaged file,
 *   or none.
 * @example
 * const key = await openKey(await readFile('hers.key', 'utf8'), passphrase);
 */
export async function openKey(text: string, passphrase?: string): Promise<MasterSeed> {
  const file = parse(text);
  if (file.seed !== undefined) return seedOf(fromHex(file.seed));
  if (passphrase === undefined) throw new HersError('WRONG_KEY', 'this key file is sealed; give its passphrase');
  let bytes: Uint8Array;
  let sealer: WebSealer | undefined;
  try {
    sealer = await sealerFor(passphrase, file.scrypt!);
    bytes = await sealer.open(fromHex(file.sealed!), ASSOCIATED_DATA);
  } catch {
    throw new HersError('WRONG_KEY', 'the passphrase is wrong, or the key file is damaged');
  } finally {
    sealer?.wipe();
  }
  return seedOf(bytes);
}
