// SEAL's heap and what lives in it. The garbage collector does not see that heap: every object
// there has to be deleted by hand. So nothing is made except through a scope, and a scope deletes
// what it made, in reverse order, when it is left (`using`).

import { readFile } from 'node:fs/promises';
import SEAL, { type Ciphertext, type MainModule, type Plaintext } from 'node-seal';
import { PaperError } from './errors.ts';
import { checkMemory, HEAP_BYTES } from './memory.ts';
import type { Parameters } from './parameters.ts';

export type Handle = { delete(): void };

export class Heap {
  readonly seal: MainModule;
  readonly #parameters: Parameters;
  readonly #memory: WebAssembly.Memory;
  readonly #limit: number;
  #handles = 0;
  #ciphertexts = 0;

  private constructor(seal: MainModule, memory: WebAssembly.Memory, parameters: Parameters, limit: number) {
    this.seal = seal;
    this.#memory = memory;
    this.#parameters = parameters;
    this.#limit = limit;
  }

  /** A heap of its own: another instance of SEAL. `limit` is what it may grow to. */
  static async open(parameters: Parameters, limit: number = HEAP_BYTES): Promise<Heap> {
    const module = await compiled();
    let memory: WebAssembly.Memory | undefined;
    const seal = await SEAL({
      // SEAL's own loader does the same, and keeps the memory to itself.
      instantiateWasm(imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void) {
        const instance = new WebAssembly.Instance(module, imports);
        memory = Object.values(instance.exports).find((value) => value instanceof WebAssembly.Memory);
        done(instance);
        return instance.exports;
      },
    });
    if (!memory) throw new Error('this build of SEAL does not export its memory');
    return new Heap(seal, memory, parameters, limit);
  }

  /** Bytes the heap has grown to. It never shrinks; what is deleted is used again. */
  get bytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Objects that were made and not deleted. */
  get handles(): number {
    return this.#handles;
  }

  /** Ciphertexts among them. */
  get ciphertexts(): number {
    return this.#ciphertexts;
  }

  scope(): Scope {
    return new Scope(this);
  }

  /** Throws OUT_OF_MEMORY unless so many further ciphertexts fit. */
  reserve(ciphertexts: number, what?: string): void {
    checkMemory(this.#parameters, this.#ciphertexts + ciphertexts, {
      heapBytes: this.#limit,
      heldBytes: this.bytes,
      ...(what === undefined ? {} : { what }),
    });
  }

  /** For scopes alone. */
  account(handles: number, ciphertexts: number): void {
    this.#handles += handles;
    this.#ciphertexts += ciphertexts;
  }
}

let wasm: Promise<WebAssembly.Module> | undefined;

/** Compiled once for all heaps of the process. */
function compiled(): Promise<WebAssembly.Module> {
  wasm ??= readFile(new URL('seal_throws.wasm', import.meta.resolve('node-seal'))).then((bytes) =>
    WebAssembly.compile(bytes),
  );
  return wasm;
}

/** Owns objects in the heap and deletes them. */
export class Scope implements Disposable {
  readonly #heap: Heap;
  readonly #owned = new Set<Handle>();
  readonly #ciphertexts = new WeakSet<Handle>();
  #closed = false;

  constructor(heap: Heap) {
    this.#heap = heap;
  }

  own<T extends Handle>(handle: T): T {
    if (this.#closed) {
      handle.delete();
      throw new PaperError('CLOSED', 'this has been closed; open it again');
    }
    this.#owned.add(handle);
    this.#heap.account(1, 0);
    return handle;
  }

  plaintext(): Plaintext {
    return this.own(new this.#heap.seal.Plaintext());
  }

  ciphertext(): Ciphertext {
    this.#heap.reserve(1);
    const ciphertext = this.own(new this.#heap.seal.Ciphertext());
    this.#ciphertexts.add(ciphertext);
    this.#heap.account(0, 1);
    return ciphertext;
  }

  /** Deletes one object before the others. */
  free(handle: Handle): void {
    if (!this.#owned.delete(handle)) return;
    this.#heap.account(-1, this.#ciphertexts.has(handle) ? -1 : 0);
    handle.delete();
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    for (const handle of [...this.#owned].reverse()) this.free(handle);
  }
}
