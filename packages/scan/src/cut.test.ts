// Files that are truncated while they are scanned. Each case runs in its own process, so that a
// crash fails one test only.
//
// Long: native.test.ts and wasm.test.ts are the short forms.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFile, mkdtemp, open, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type HersError, parameterSet } from '@hers/scheme';
import { part } from '../../../tools/parts.ts';
import { buildSegment } from './builder.ts';
import type { Kernel, SegmentHandle } from './kernel.ts';
import { NativeKernel } from './native/native.ts';
import { ADDON_PATH, loadAddon } from './native/native-addon.ts';
import { ReferenceKernel } from './reference.ts';
import { PANEL_ROWS, type SegmentHeader } from './segment.ts';
import { mixed, specimenBlock, specimenQuery } from './specimen.ts';
import { WasmKernel } from './wasm/wasm.ts';

const compiler = part('compiler');
const child = join(import.meta.dirname, '../testing/cut-child.ts');
const parameters = parameterSet('insecure_n_64_logq_30_wide_5');
const width = 16;

let folder: string;
let path: string;
let header: SegmentHeader;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-cut-'));
  path = join(folder, 'small.segment');
  const blocks = [0, 1].map((index) => specimenBlock({ parameters, width, index, residue: mixed(index) }));
  header = await buildSegment(path, blocks, blocks.length);
});
after(() => rm(folder, { recursive: true }));

/** A copy of the file, truncated to a length. */
async function shorter(length: number): Promise<string> {
  const short = join(folder, 'shorter.segment');
  await copyFile(path, short);
  await truncate(short, length);
  return short;
}

async function count(kernel: Kernel, handle: SegmentHandle): Promise<number> {
  const query = specimenQuery({ parameters, width, index: 0, residue: mixed(100) });
  return (await Array.fromAsync(kernel.scan([handle], [query]))).length;
}

const url = (file: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

async function runNode(args: readonly string[]): Promise<Ending> {
  const running = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [running.stdout, running.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  return new Promise((resolve, reject) => {
    running.on('error', reject);
    running.on('close', (code, signal) => resolve({ code, signal, output }));
  });
}

describe('a mapped file that is cut', compiler, () => {
  for (const [name, what] of [
    ['before', 'before a scan of it ends the scan, to whatever length it was cut'],
    ['during', 'during a scan of it ends the scan, and nothing that was answered is wrong'],
    ['beside', 'leaves the scans of other files alone'],
    ['again', 'and written again, over and over, is answered right or not at all'],
  ])
    it(what, { timeout: 120_000 }, async () => {
      const own = await mkdtemp(join(folder, 'child-'));
      assert.deepEqual(await runNode([child, name, own, ADDON_PATH]), { code: 0, signal: null, output: 'right\n' });
    });

  it('between the reading of its header and its mapping is refused with a code', async () => {
    const file = await open(await shorter(header.fileBytes - 1), 'r');
    try {
      const { rows, dataAt, partChecksums, blocks } = header;
      const table = new Uint8Array(24 * blocks.length);
      const layout = { rows, panelRows: PANEL_ROWS, packed: false, dataAt, table, partChecksums };
      assert.throws(() => loadAddon().mapSegment(file.fd, layout), { code: 'ENODATA' });
    } finally {
      await file.close();
    }
  });

  it('and one that was written in place is verified again', async () => {
    const kernel = NativeKernel.open({ threads: 1 });
    const written = join(folder, 'written.segment');
    await copyFile(path, written);
    const handle = await kernel.load({ path: written });
    assert.equal(await count(kernel, handle), 2);
    await truncate(written, header.dataAt);
    await truncate(written, header.fileBytes);
    await assert.rejects(count(kernel, handle), { code: 'DAMAGED' });
    await kernel.close();
  });
});

describe('a bus error that is none of ours', compiler, () => {
  const mapped = (rest: string) => `
    const { NativeKernel } = await import(${url('native/native.ts')});
    const kernel = NativeKernel.open({ threads: 1 });
    await kernel.load({ path: ${JSON.stringify(path)} });
    ${rest}
  `;
  const send = "process.kill(process.pid, 'SIGBUS'); setTimeout(() => {}, 10_000);";
  const run = (code: string) => runNode(['--input-type=module', '-e', code]);

  it('ends the process as ever', async () => {
    assert.equal((await run(mapped(send))).signal, 'SIGBUS');
  });

  it('reaches who listened before', async () => {
    const listen = "process.on('SIGBUS', () => { console.log('heard'); process.exit(); });";
    assert.deepEqual(await run(listen + mapped(send)), { code: 0, signal: null, output: 'heard\n' });
  });

  it('also when the worker is gone that had loaded the addon', async () => {
    const worker = JSON.stringify(mapped('await kernel.close(); process.exit();'));
    const code = `
      import { Worker } from 'node:worker_threads';
      new Worker(${worker}, { eval: true, execArgv: ['--input-type=module'] }).once('exit', () => { ${send} });
    `;
    assert.equal((await run(code)).signal, 'SIGBUS');
  });
});

describe('a file that is too short', () => {
  const kernels: Record<string, () => Promise<Kernel>> = {
    reference: async () => new ReferenceKernel(),
    wasm: () => WasmKernel.open({ threads: 1 }),
    native: async () => NativeKernel.open({ threads: 1 }),
  };
  for (const [name, openKernel] of Object.entries(kernels))
    it(`is refused by the ${name} kernel when it is loaded`, name === 'native' ? compiler : {}, async () => {
      const kernel = await openKernel();
      try {
        for (const [length, code] of [
          [0, 'MALFORMED'],
          [200, 'DAMAGED'],
          [header.dataAt, 'DAMAGED'],
          [header.fileBytes - 1, 'DAMAGED'],
        ] as const)
          await assert.rejects(kernel.load({ path: await shorter(length) }), (error: HersError) => {
            assert.equal(error.code, code);
            assert.ok(error.message.startsWith(join(folder, 'shorter.segment')), error.message);
            return true;
          });
      } finally {
        await kernel.close();
      }
    });
});
