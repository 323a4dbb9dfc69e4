// Chooses the kernel: the one that was asked for, otherwise the fastest that works here. A kernel
// works if it answers a small search as scheme's own scan does. Others are left out, with a reason
// that is reported once.

import { encodeResponse, expandedQuery, HersError, parameterSet, refuseUnknown, scanBlock } from '@hers/scheme';
import { segmentBytes } from './builder.ts';
import { KERNEL_NAMES, type Kernel, type KernelName } from './kernel.ts';
import { ReferenceKernel } from './reference.ts';
import { largest, mixed, specimenBlock, specimenQuery } from './specimen.ts';

/** The environment variable that chooses a kernel, unless the option does. */
const VARIABLE = 'HERS_KERNEL';

export interface KernelOptions {
  readonly kernel?: string | undefined;
  /** By default as many as the process may use. */
  readonly threads?: number | undefined;
  /**
   * Called with the reason why a kernel was left out, once for each reason. By default it becomes a
   * process warning.
   */
  readonly warn?: ((message: string) => void) | undefined;
}

export interface KernelChoice {
  readonly kernel: Kernel;
  /** For people: which kernel, and why this one. */
  readonly chosen: string;
  /** For people: which were left out, and why. */
  readonly rejected: readonly string[];
}

/** How each kernel is opened. */
export type KernelOpeners = Readonly<Record<KernelName, (threads: number | undefined) => Promise<Kernel>>>;

/** A kernel of another package. */
export interface RegisteredKernel {
  /** Opens it. `openCpu` opens the fastest kernel of this package, for what the other cannot do. */
  open(warn: (message: string) => void, openCpu: () => Promise<Kernel>): Promise<Kernel>;
  /** Returns whether to try it, before all others, where no kernel is asked for. */
  isAutomatic(): boolean;
}

const registered: Map<string, RegisteredKernel> = new Map();

/** Adds a kernel of another package, or replaces it. */
export function registerKernel(name: string, kernel: RegisteredKernel): void {
  registered.set(name, kernel);
}

const openers: KernelOpeners = {
  async native(threads) {
    const { NativeKernel } = await import('./native/native.ts');
    return NativeKernel.open({ threads });
  },
  async wasm(threads) {
    const { WasmKernel } = await import('./wasm/wasm.ts');
    return WasmKernel.open({ threads });
  },
  async reference() {
    return new ReferenceKernel();
  },
};

/**
 * Kernels that are tried where none is asked for, fastest first. On arm64 native code has vectors
 * of the same length as WebAssembly, and nobody has measured that it is faster: it must be asked
 * for.
 */
function automaticKernels(arch: string, more: typeof registered): readonly string[] {
  const others = [...more].filter(([, kernel]) => kernel.isAutomatic()).map(([name]) => name);
  return [...others, ...(arch === 'arm64' ? [] : ['native']), 'wasm', 'reference'];
}

/**
 * Opens a kernel: the one that the option names, otherwise the variable HERS_KERNEL, otherwise the
 * first that works of the registered ones, native (not on arm64), wasm and reference.
 *
 * @example const { kernel, chosen } = await openKernel();
 */
export async function openKernel(options: KernelOptions = {}): Promise<KernelChoice> {
  refuseUnknown(options, { kernel: true, threads: true, warn: true }, 'openKernel');
  return chooseKernel(options, openers, process.env[VARIABLE]);
}

/** The same with other kernels and another variable, for tests. */
export async function chooseKernel(
  options: KernelOptions,
  openers: KernelOpeners,
  variable: string | undefined,
  arch: string = process.arch,
  more: typeof registered = registered,
): Promise<KernelChoice> {
  const { kernel: option, threads, warn = emitWarning } = options;
  const wanted = option ?? (variable === '' ? undefined : variable) ?? 'auto';
  const source = option === undefined ? VARIABLE : 'the option kernel';
  const names = [...KERNEL_NAMES, ...more.keys(), 'auto'];
  if (!names.includes(wanted)) {
    throw new HersError('INVALID_ARGUMENT', `${source} is ${JSON.stringify(wanted)}; it can be ${names.join(', ')}`);
  }
  const openCpu = async () =>
    (await chooseKernel({ ...options, kernel: 'auto' }, openers, undefined, arch, new Map())).kernel;
  const open = (name: string) => more.get(name)?.open(warn, openCpu) ?? openers[name as KernelName](threads);
  const rejected: string[] = [];
  for (const name of wanted === 'auto' ? automaticKernels(arch, more) : [wanted]) {
    try {
      const kernel = await openChecked(() => open(name));
      const why = wanted === 'auto' ? 'the fastest that works here' : `asked for by ${source}`;
      if (rejected.length > 0) sayOnce(`the ${name} kernel scans; ${rejected.join('; ')}`, warn);
      return { kernel, chosen: `${name} (${kernel.detail}), ${why}`, rejected };
    } catch (error) {
      // An invalid argument is invalid for every kernel.
      if (error instanceof HersError && error.code === 'INVALID_ARGUMENT') throw error;
      const reason = `the ${name} kernel cannot be used: ${reasonOf(error)}`;
      if (wanted !== 'auto') throw new Error(`${reason}. ${source} asks for it; take it back, or repair this.`);
      rejected.push(reason);
    }
  }
  throw new Error(`no kernel works: ${rejected.join('; ')}`);
}

function reasonOf(error: unknown): string {
  if ((error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND') return 'it is not part of this installation';
  return error instanceof Error ? error.message.replace(/\.$/, '') : String(error);
}

async function openChecked(open: () => Promise<Kernel>): Promise<Kernel> {
  const kernel = await open();
  try {
    await checkKernel(kernel);
    return kernel;
  } catch (error) {
    await kernel.close();
    throw error;
  }
}

/**
 * One prime and two, packed rows, more rows than are summed without folding, more than
 * one vector of everything, and as many queries as kernels take together in different ways.
 */
const TRIALS = [
  { set: 'n_2048_logq_30_wide_5', width: 15, together: 2 },
  { set: 'insecure_n_64_logq_30_30_wide_4', width: 66, together: 3 },
  { set: 'insecure_n_64_logq_24_wide_5', width: 69, together: 5 },
];

/** Throws unless the kernel's answers equal those of `scanBlock`. */
export async function checkKernel(kernel: Kernel): Promise<void> {
  for (const { set, width, together } of TRIALS) {
    const parameters = parameterSet(set);
    const residues = [mixed(1), largest, mixed(2)];
    const blocks = residues.map((residue, index) => specimenBlock({ parameters, width, index, residue }));
    const queries = Array.from({ length: together }, (_, index) =>
      specimenQuery({ parameters, width, index, residue: index === 0 ? largest : mixed(2 + index) }),
    );
    const expanded = queries.map(expandedQuery);
    const handle = await kernel.load({ bytes: segmentBytes(blocks), name: 'self-test' });
    try {
      let right = 0;
      for await (const { block, query, response } of kernel.scan([handle], queries)) {
        const expected = encodeResponse(scanBlock(blocks[block], expanded[query]));
        if (Buffer.compare(response, expected) === 0) right++;
      }
      if (right !== blocks.length * queries.length) throw new Error('it failed its self-test');
    } finally {
      await kernel.unload(handle);
    }
  }
}

const said = new Set<string>();

function sayOnce(message: string, warn: (message: string) => void): void {
  if (said.has(message)) return;
  said.add(message);
  warn(message);
}

function emitWarning(message: string): void {
  process.emitWarning(message, { type: 'HersWarning', code: 'HERS_KERNEL' });
}
