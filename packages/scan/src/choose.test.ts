import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildSegment } from './builder.ts';
import { checkKernel, chooseKernel, type KernelOpeners, openKernel } from './choose.ts';
import type { Kernel, KernelName, ScanResult } from './kernel.ts';
import { NativeKernel } from './native/native.ts';
import { ReferenceKernel } from './reference.ts';
import { WasmKernel } from './wasm/wasm.ts';

/** A kernel that answers, correctly or not, under another name. */
class Impostor extends ReferenceKernel {
  readonly wrong: boolean;
  closed = false;
  constructor(wrong = false) {
    super();
    this.wrong = wrong;
  }
  override async *scan(...args: Parameters<Kernel['scan']>): AsyncIterable<ScanResult> {
    for await (const result of super.scan(...args)) {
      if (this.wrong && result.block === 1) result.response[100] ^= 1;
      yield result;
    }
  }
  override async close(): Promise<void> {
    this.closed = true;
  }
}

const fails = (message: string) => async (): Promise<Kernel> => {
  throw new Error(message);
};
const works = async () => new Impostor();

function trial(openers: Partial<KernelOpeners>) {
  const warnings: string[] = [];
  const all: KernelOpeners = { native: works, wasm: works, reference: works, ...openers };
  const choose = (kernel?: KernelName | 'auto', variable?: string, arch = 'x64') =>
    chooseKernel({ kernel, warn: (message) => warnings.push(message) }, all, variable, arch);
  return { choose, warnings };
}

describe('the choice of a kernel', () => {
  it('takes the fastest that works, without a word', async () => {
    const { choose, warnings } = trial({});
    for (const choice of [await choose(), await choose('auto'), await choose(undefined, '')]) {
      assert.match(choice.chosen, /^native \(plain TypeScript, one thread\), the fastest/);
      assert.deepEqual(choice.rejected, []);
    }
    assert.deepEqual(warnings, []);
  });

  it('takes native code on arm64 only where it is asked for', async () => {
    const { choose, warnings } = trial({});
    assert.match((await choose('auto', undefined, 'arm64')).chosen, /^wasm .* the fastest/);
    assert.match((await choose('native', undefined, 'arm64')).chosen, /^native .* asked for/);
    assert.deepEqual(warnings, []);
  });

  it('goes on to the next one when a kernel is missing or wrong, and says so once', async () => {
    const wrong = new Impostor(true);
    const { choose, warnings } = trial({ native: fails('the addon was not built'), wasm: async () => wrong });
    for (let i = 0; i < 2; i++) {
      const { chosen, rejected } = await choose();
      assert.match(chosen, /^reference/);
      assert.deepEqual(rejected, [
        'the native kernel cannot be used: the addon was not built',
        'the wasm kernel cannot be used: it failed its self-test',
      ]);
    }
    assert.ok(wrong.closed);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /^the reference kernel scans; .*not built; .*self-test$/);
  });

  it('follows the option before the variable, and fails rather than take another', async () => {
    const { choose, warnings } = trial({ native: fails('the addon was not built') });
    assert.match((await choose('reference', 'wasm')).chosen, /^reference .* asked for by the option kernel$/);
    assert.match((await choose(undefined, 'wasm')).chosen, /^wasm .* asked for by HERS_KERNEL$/);
    assert.match((await choose('auto', 'reference')).chosen, /^wasm .* the fastest/);
    await assert.rejects(choose('native'), /native kernel cannot be used: the addon was not built\. the option kernel/);
    await assert.rejects(choose(undefined, 'native'), /HERS_KERNEL asks for it/);
    await assert.rejects(choose(undefined, 'gpu'), /HERS_KERNEL is "gpu"; it can be native, wasm, reference, auto/);
    assert.equal(warnings.length, 1);
  });

  it('gives up only when nothing works', async () => {
    const { choose } = trial({ native: fails('a'), wasm: fails('b'), reference: fails('c') });
    await assert.rejects(choose(), /no kernel works: .*a; .*b; .*c$/);
  });

  it('tries a registered kernel first where it says so, and gives it one of the CPU', async () => {
    const given: string[] = [];
    let isAutomatic = true;
    const more = new Map([
      [
        'other',
        {
          isAutomatic: () => isAutomatic,
          async open(_warn: unknown, openCpu: () => Promise<Kernel>) {
            given.push((await openCpu()).name);
            return new Impostor();
          },
        },
      ],
    ]);
    const all: KernelOpeners = { native: works, wasm: works, reference: works };
    const choose = async (kernel?: string) =>
      (await chooseKernel({ kernel }, all, undefined, 'x64', more)).chosen.split(' ')[0];
    assert.deepEqual([await choose(), await choose('other'), await choose('wasm')], ['other', 'other', 'wasm']);
    isAutomatic = false;
    assert.deepEqual([await choose(), await choose('other')], ['native', 'other']);
    assert.deepEqual(given, ['reference', 'reference', 'reference']);
  });

  it('refuses a wrong number of threads instead of falling back', async () => {
    await assert.rejects(openKernel({ kernel: 'wasm', threads: 0 }), { code: 'INVALID_ARGUMENT' });
  });
});

it('refuses options that no kernel has', async () => {
  const misspelt = { thread: 1 } as object;
  const refused = (what: string) => ({
    code: 'INVALID_ARGUMENT',
    message: `${what} has no option "thread"; did you mean threads?`,
  });
  await assert.rejects(openKernel(misspelt), refused('openKernel'));
  await assert.rejects(WasmKernel.open(misspelt), refused('a WebAssembly kernel'));
  assert.throws(() => NativeKernel.open(misspelt), refused('a native kernel'));
  await assert.rejects(buildSegment('nowhere', [], 1, { singal: undefined } as object), {
    message: 'a segment has no option "singal"; did you mean signal?',
  });
});

describe('the self-test', () => {
  it('is passed by the reference and by the WebAssembly kernel', async () => {
    await checkKernel(new ReferenceKernel());
    const { kernel, chosen } = await openKernel({ kernel: 'wasm', threads: 1 });
    assert.match(chosen, /^wasm \(WebAssembly SIMD, 1 thread\)/);
    await kernel.close();
  });
  it('is passed by whatever is chosen here', async () => {
    const { kernel, chosen, rejected } = await openKernel({ kernel: 'auto', warn: () => {} });
    assert.ok(chosen.startsWith(kernel.name));
    assert.ok(rejected.every((reason) => reason.includes('cannot be used')));
    await kernel.close();
  });
});
