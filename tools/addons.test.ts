// The addons that are published: for which machine each is taken, and, where they were made, what
// they ask of that machine.
//
// Long: it needs what `npm run build:addons` makes.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { openBulkAddon } from '@hers/client/bulk-sealing';
import { Ring } from '@hers/ring';
import { addonName, interpreterOf, thisMachine } from '@hers/ring/machine';
import { passesSelfTest } from '@hers/ring/self-test';
import { allCode } from '@hers/ring/testing/code';
import { checkEqual, functionsOf, jobsOf, phasesOf, RINGS } from '@hers/ring/testing/ring-bytes';
import { checkKernel } from '@hers/scan/accelerator';
import { NativeKernel } from '@hers/scan/native';
import { loadAddon } from '@hers/scan/native-addon';
import { currentAddons, PUBLISHED_ADDONS } from './addons.ts';
import { isRequired, part } from './parts.ts';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);

describe('the addon of a machine', () => {
  const filesOf = (name: string) =>
    PUBLISHED_ADDONS.filter(({ of }) => of === name).map(({ target }) => basename(target.output));
  const chosen = (platform: string, arch: string, isMusl = false) => addonName('scan', { platform, arch, isMusl });

  it('is one of those that are published, by platform, architecture and C library', () => {
    assert.equal(chosen('linux', 'x64'), 'hers_scan.linux-x64.node');
    assert.equal(chosen('linux', 'arm64'), 'hers_scan.linux-arm64.node');
    assert.equal(chosen('linux', 'x64', true), 'hers_scan.linux-x64-musl.node');
    const all = [chosen('linux', 'x64'), chosen('linux', 'arm64'), chosen('linux', 'x64', true)];
    assert.deepEqual(all.sort(), filesOf('scan').sort());
    const ring = [false, true].map((isMusl) => addonName('ring', { platform: 'linux', arch: 'x64', isMusl }));
    assert.deepEqual(ring.sort(), filesOf('ring').sort());
    assert.deepEqual(
      filesOf('client').sort(),
      all.map((name) => name.replace('scan', 'client')),
    );
  });

  it('is chosen by the loader that Node asks for', {
    skip: process.platform !== 'linux' && 'Linux alone has two',
  }, () => {
    const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
    assert.equal(thisMachine().isMusl, header.glibcVersionRuntime === undefined);
    const folder = mkdtempSync(join(tmpdir(), 'hers-loader-'));
    try {
      const file = join(folder, 'program');
      for (const loader of ['/lib/ld-musl-x86_64.so.1', '/lib64/ld-linux-x86-64.so.2']) {
        writeFileSync(file, program(loader));
        assert.equal(interpreterOf(file), loader);
      }
      for (const other of [program('/lib/x').subarray(0, 80), Buffer.from('#!/bin/sh\n'), Buffer.alloc(0)]) {
        writeFileSync(file, other);
        assert.equal(interpreterOf(file), undefined);
      }
      assert.equal(interpreterOf(join(folder, 'missing')), undefined);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('is none of these on any other', () => {
    for (const name of [
      chosen('linux', 'arm64', true),
      chosen('darwin', 'arm64'),
      chosen('darwin', 'x64'),
      chosen('win32', 'x64'),
    ])
      assert.ok(!filesOf('scan').includes(name), name);
  });
});

/** The head of a program in ELF that names a loader in the second of its segments. */
function program(loader: string): Buffer {
  const bytes = Buffer.alloc(256);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  bytes.writeBigUInt64LE(64n, 32);
  bytes.writeUInt16LE(56, 54);
  bytes.writeUInt16LE(2, 56);
  bytes.writeUInt32LE(1, 64);
  bytes.writeUInt32LE(3, 120);
  bytes.writeBigUInt64LE(200n, 128);
  bytes.writeBigUInt64LE(BigInt(loader.length + 1), 152);
  bytes.write(loader, 200);
  return bytes;
}

/** What a shared object asks of the system: versions of glibc's symbols, and libraries. */
function demands(file: string): { glibc: number; libraries: string[]; isMusl: boolean } {
  const text = readFileSync(file, 'latin1');
  const versions = [...text.matchAll(/\0GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
  const libraries = [...text.matchAll(/\0((?:lib|ld)[\w+-]*\.so(?:\.\d+)?)(?=\0)/g)].map(([, name]) => name!);
  return { glibc: Math.max(0, ...versions), libraries: [...new Set(libraries)], isMusl: versions.length === 0 };
}

it('a library that needs a newer system is recognised as such', part('compiler'), () => {
  const { libraries } = demands(workspace.path('scan', 'build/hers_scan.node'));
  // What the compiler of this machine makes takes the C++ library of the system.
  assert.ok(libraries.includes('libstdc++.so.6') || libraries.includes('libc++.so.1'), libraries.join());
});

describe('published addons', () => {
  const current = currentAddons();
  const skip = current.length === 0 && 'they were not made from these sources: `npm run build:addons` makes them';

  it('are made from these sources, all of them', { skip: !isRequired('addons') && 'HERS_REQUIRE asks for it' }, () => {
    part('addons');
    const stale = PUBLISHED_ADDONS.filter((addon) => !current.includes(addon)).map(({ target }) => target.output);
    assert.deepEqual(stale, [], 'run `npm run build:addons`');
  });

  it('need glibc 2.28 at most, and no C++ library', { skip }, () => {
    const LIBRARIES = ['libc.so.6', 'libpthread.so.0', 'libdl.so.2', 'libm.so.6', 'librt.so.1', 'libc.so'];
    const LOADERS = ['ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'];
    for (const { machine, target } of current) {
      const { glibc, libraries, isMusl } = demands(target.output);
      assert.ok(glibc <= 28, `${machine} needs glibc 2.${glibc}`);
      assert.equal(isMusl, machine.endsWith('-musl'));
      assert.deepEqual(
        libraries.filter((name) => ![...LIBRARIES, ...LOADERS].includes(name)),
        [],
        machine,
      );
    }
  });

  const own = current.find(({ of, machine }) => of === 'scan' && machine === `${process.platform}-${process.arch}`);
  const notHere = own === undefined && 'there is none for this machine: `npm run build:addons` makes them';

  it('find the instruction sets that the system lists', { skip: notHere }, () => {
    // The machine's own build asks the library of its compiler; ours is in tools/addons/cpu_model.cc.
    const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? '';
    const has = new Set(flags.trim().split(' '));
    const every = (...names: string[]) => names.every((name) => has.has(name));
    const avx2 = every('avx2', 'fma');
    const avx512 = avx2 && every('avx512f', 'avx512dq', 'avx512bw', 'avx512vl');
    const expected = [
      ...(avx512 && every('avx512ifma') ? ['avx512ifma'] : []),
      ...(avx512 ? ['avx512'] : []),
      ...(avx2 ? ['avx2'] : []),
      'generic',
    ];
    assert.deepEqual(loadAddon(own!.target.output).variants(), expected);
  });

  it('answer as the reference does, on this machine', { skip: notHere }, async () => {
    if (own === undefined) return;
    for (const isa of loadAddon(own.target.output).variants()) {
      const kernel = NativeKernel.open({ addon: own.target.output, isa, threads: 2 });
      await checkKernel(kernel);
      await kernel.close();
    }
  });

  const ring = current.find(({ of, machine }) => of === 'ring' && machine === `${process.platform}-${process.arch}`);
  const noRing = ring === undefined && 'there is none for this machine: `npm run build:addons` makes them';

  it('compute in the ring what WebAssembly does, byte for byte', { skip: noRing }, () => {
    if (ring === undefined) return;
    const [, ...natives] = allCode([ring.target.output]);
    assert.ok(natives.length > 0, 'there is no code for this processor');
    const all = (of: Ring) => [functionsOf(of), jobsOf(of), of.n <= 2048 ? phasesOf(of) : {}];
    for (const { n, primes } of RINGS) {
      const expected = all(new Ring(n, primes));
      for (const { name, native } of natives)
        for (const [i, bytes] of all(new Ring(n, primes, native!)).entries()) checkEqual(bytes, expected[i]!, name);
    }
    for (const { native } of natives) assert.ok(passesSelfTest(native!));
  });

  it('hash and seal many records as Node does, on this machine', { skip: notHere }, () => {
    const client = current.find(({ of, machine }) => of === 'client' && machine === own?.machine);
    assert.ok(client && openBulkAddon([client.target.output]));
  });

  const arm = current.find(({ of, machine }) => of === 'scan' && machine === 'linux-arm64');
  const qemu = ['/usr/bin/qemu-aarch64-static', '/usr/bin/qemu-aarch64'].find(existsSync);
  const node = join(root, 'dist/node-linux-arm64/bin/node');
  const libraries = '/usr/aarch64-linux-gnu';
  const lacks = [
    [arm, 'the addon: `npm run build:addons`'],
    [qemu, 'qemu: on Debian, apt-get install qemu-user-static'],
    [existsSync(node), 'Node for arm64: the package node-linux-arm64 unpacked into dist/node-linux-arm64'],
    [existsSync(libraries), 'its libraries: on Debian, apt-get install libstdc++6-arm64-cross libatomic1-arm64-cross'],
  ].find(([has]) => !has);

  it('answer as the reference does on arm64, under qemu', { skip: lacks !== undefined && `needs ${lacks[1]}` }, () => {
    const code = `
      import { checkKernel } from ${JSON.stringify(workspace.path('scan', 'src/choose.ts'))};
      import { NativeKernel } from ${JSON.stringify(workspace.path('scan', 'src/native/native.ts'))};
      import { openBulkAddon } from ${JSON.stringify(workspace.path('client', 'src/sealing/bulk-sealing.node.ts'))};
      const kernel = NativeKernel.open({ addon: ${JSON.stringify(arm?.target.output)}, threads: 2 });
      await checkKernel(kernel);
      await kernel.close();
      const bulk = openBulkAddon([${JSON.stringify(arm?.target.output.replace('scan', 'client'))}]);
      console.log(process.arch, kernel.isa, bulk !== undefined);`;
    const args = ['-L', libraries, node, '--input-type=module', '-e', code];
    const { stdout, stderr } = spawnSync(qemu!, args, { encoding: 'utf8', timeout: 120_000 });
    assert.equal(stdout, 'arm64 generic true\n', stderr);
  });
});
