// The native addon that hashes and seals many records at once (packages/client/native), where it
// was built and passes a self-test. Nothing needs it: sealing.node.ts does the same one by one.

import { createCipheriv, createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { addonName, thisMachine } from '@hers/ring/machine';

declare const isKey: unique symbol;

/** Keys in the memory of the addon. */
type HashKeyRef = { readonly [isKey]: 'hash' };
type SealKeyRef = { readonly [isKey]: 'seal' };

/** packages/client/native/addon.cc */
export interface BulkAddon {
  /** Whether this Node has the functions of OpenSSL that it calls. */
  isComplete(): boolean;
  /** Both copy the key, 32 bytes. */
  makeHashKey(key: Uint8Array): HashKeyRef;
  makeSealKey(key: Uint8Array): SealKeyRef;
  wipeHashKey(key: HashKeyRef): void;
  wipeSealKey(key: SealKeyRef): void;
  /**
   * HMAC-SHA256 of head i and of the data from start i to end i, for every i. Heads have all the
   * same length, and so have the hashes in `out`, which are cut to it.
   */
  hashMany(
    key: HashKeyRef,
    heads: Uint8Array,
    data: Uint8Array,
    starts: Uint32Array,
    ends: Uint32Array,
    out: Uint8Array,
  ): void;
  /**
   * AES-256-GCM of plains that lie one after the other; associated data are all of one length. In
   * `out`, every seal comes after so many bytes, which it leaves as they are.
   */
  sealMany(
    key: SealKeyRef,
    nonces: Uint8Array,
    associated: Uint8Array,
    plains: Uint8Array,
    ends: Uint32Array,
    before: number,
    out: Uint8Array,
  ): void;
}

export type { HashKeyRef, SealKeyRef };

const build = join(import.meta.dirname, '../../build');

/** Where `npm run build` puts it. */
export const ADDON_PATH: string = join(build, 'hers_client.node');

/** A published package has one for each of several platforms (tools/addons.ts). */
const PATHS = [join(build, addonName('client', thisMachine())), ADDON_PATH];

let found: { readonly addon: BulkAddon | undefined } | undefined;

/** Nothing where it was not built, does not load, or fails its self-test. */
export function bulkAddon(): BulkAddon | undefined {
  found ??= { addon: openBulkAddon() };
  return found.addon;
}

/** What a function makes without it, for comparisons. */
export async function withoutBulk<T>(make: () => T | Promise<T>): Promise<T> {
  const before = found;
  found = { addon: undefined };
  try {
    return await make();
  } finally {
    found = before;
  }
}

/** The first of these that is there, if it loads and passes its self-test. */
export function openBulkAddon(paths: readonly string[] = PATHS): BulkAddon | undefined {
  const path = paths.find((each) => existsSync(each));
  if (path === undefined) return undefined;
  try {
    const module = { exports: {} };
    process.dlopen(module, path);
    const addon = module.exports as BulkAddon;
    return addon.isComplete() && passesSelfTest(addon) ? addon : undefined;
  } catch {
    return undefined;
  }
}

/** Against Node's own functions: OpenSSL may have changed, or another library be in its place. */
function passesSelfTest(addon: BulkAddon): boolean {
  const key = Uint8Array.from({ length: 32 }, (_, i) => 7 * i);
  const [head, nonce] = [Uint8Array.of(1, 2, 3), new Uint8Array(12).fill(9)];
  const data = Uint8Array.from({ length: 200 }, (_, i) => i);
  const [hashKey, sealKey] = [addon.makeHashKey(key), addon.makeSealKey(key)];
  const hash = new Uint8Array(32);
  addon.hashMany(hashKey, head, data, Uint32Array.of(10), Uint32Array.of(190), hash);
  const expected = createHmac('sha256', key).update(head).update(data.subarray(10, 190)).digest();
  const sealed = new Uint8Array(nonce.length + data.length + 16);
  addon.sealMany(sealKey, nonce, head, data, Uint32Array.of(data.length), 0, sealed);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(head);
  const body = Buffer.concat([nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()]);
  addon.wipeHashKey(hashKey);
  addon.wipeSealKey(sealKey);
  return expected.equals(hash) && body.equals(sealed);
}
