// The packages that people install, as they find them: packed, installed into folders outside the
// clone, and used there.
//
// Long: it packs and installs everything.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { apiReport, REPORT, symbolsOf, undocumented } from './api.ts';
import { importsOf } from './imports.ts';
import { type Installation, install, pack, type Tarball } from './pack.ts';
import { testExamples } from './pack-examples.ts';
import { part } from './parts.ts';
import { aroundExamples, examplesOf, thrownBy, untagged } from './tags.ts';

const root = resolve(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'hers-packages-'));
/** With this Node for `#!/usr/bin/env node`, and nothing of the clone. */
const env: NodeJS.ProcessEnv = {
  PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter),
  HOME: process.env.HOME,
  HERS_PASSPHRASE: 'a passphrase for trials',
};

let tarballs: readonly Tarball[];
let hers: Installation;
let client: Installation;
let installed: readonly string[];

before(() => {
  tarballs = pack(join(folder, 'tarballs'));
  const [first, second] = tarballs.map(({ path }) => path) as [string, string];
  hers = install(join(folder, 'hers'), [first]);
  client = install(join(folder, 'client'), [second]);
  installed = [hers, client].flatMap(filesOf);
});
after(() => rmSync(folder, { recursive: true }));

function filesOf({ folder }: Installation): string[] {
  return globSync('node_modules/**', { cwd: folder }).map((file) => join(folder, file));
}

function run(cwd: string, command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 120_000 });
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

function runScript(cwd: string, name: string, code: string): string {
  writeFileSync(join(cwd, name), code);
  return run(cwd, process.execPath, name);
}

/** The command as installed, without npx, which takes longer than the command itself. */
function command(cwd: string, ...args: string[]): string {
  return run(cwd, join(hers.folder, 'node_modules/.bin/hers'), ...args);
}

/** The example of the README, with the import of an installed package. */
function readmeExample(): string {
  const [, code] = /^```ts\n(import .*?)^```/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))!;
  assert.match(code!, /'@hers\/client'/);
  return code!.replace("'@hers/client'", "'hers'");
}

describe('what is installed', () => {
  it('is small', () => {
    assert.ok(client.bytes < 2e6, `@hers/client takes ${client.bytes} bytes`);
    assert.ok(client.packages <= 5, `@hers/client brings ${client.packages} packages`);
    assert.ok(hers.bytes < 15e6, `hers takes ${hers.bytes} bytes`);
    // The measure itself: as much as the code of the client, at least.
    assert.ok(client.bytes > 500_000 && hers.bytes > client.bytes);
  });

  it('has nothing heavy, no other Node, and nothing that runs or compiles at installation', () => {
    const matching = (files: readonly string[], pattern: RegExp) => files.filter((file) => pattern.test(file));
    const heavy = /node_modules\/(?:onnxruntime|vega|node-seal|node-linux|@hers\/(?!client(?:\/|$)))|binding\.gyp$/;
    assert.deepEqual(matching(installed, heavy), []);
    // Of the store the client has the lock for files that remember versions, and no more.
    const server =
      /\.node$|node_modules\/fastify|\/lib\/(?:scan\/|server\/|cli\/|store\/src\/(?!files$|files\/file-lock|base$|base\/storage-errors))/;
    assert.deepEqual(matching(filesOf(client), server), []);
    // The patterns themselves find what they look for.
    assert.ok(matching(filesOf(hers), server).length > 100);
    for (const name of ['hers/node_modules/hers', 'client/node_modules/@hers/client']) {
      const manifest = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'));
      assert.equal(manifest.scripts, undefined);
      assert.equal(manifest.license, 'Apache-2.0');
      assert.ok(existsSync(join(folder, name, 'LICENSE')) && existsSync(join(folder, name, 'README.md')));
    }
  });

  it('holds every file that it imports, and no trace of where it was made', () => {
    const ours = installed.filter((file) =>
      /node_modules\/(?:hers|@hers\/client)\/(?:lib|bin)\/.*\.(?:m?js|map)$/.test(file),
    );
    const declarations = installed.filter((file) => /node_modules\/(?:hers|@hers\/client)\/lib\/.*\.d\.ts$/.test(file));
    let relative = 0;
    for (const file of [...ours, ...declarations]) {
      const text = readFileSync(file, 'utf8');
      assert.ok(!text.includes(root), file);
      // What pages load lies side by side only where it is served.
      if (file.endsWith('.map') || /(?:client\/build\/hers|console\/build\/(?:console|models))\.js$/.test(file))
        continue;
      const home = file.slice(0, file.search(/\/(?:lib|bin)\//));
      const { dependencies, peerDependencies, imports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
      for (const { specifier = '', line } of importsOf(text, file)) {
        const where = `${file}:${line}: ${specifier}`;
        if (/^\.\.?\//.test(specifier)) {
          relative++;
          const target = resolve(dirname(file), specifier);
          assert.ok(existsSync(file.endsWith('.d.ts') ? target.replace(/\.js$/, '.d.ts') : target), where);
        } else if (specifier.startsWith('#')) {
          const targets = Object.values(
            typeof imports[specifier] === 'string' ? [imports[specifier]] : imports[specifier],
          );
          assert.ok(targets.length > 0 && targets.every((path) => existsSync(join(home, path as string))), where);
        } else if (!isBuiltin(specifier) && !specifier.startsWith('@hers/cuda')) {
          const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)![0];
          assert.ok(name in { ...dependencies, ...peerDependencies }, where);
        }
      }
    }
    assert.ok(relative > 1000, `only ${relative} imports were checked`);
  });
});

describe('the library', () => {
  it('runs the example of the README, from JavaScript', () => {
    assert.match(runScript(hers.folder, 'app.js', readmeExample()), /id: 'ada'/);
  });

  it('is loaded by require', () => {
    const code = `
      const { connect, MasterSeed } = require('hers');
      for (const name of ['client', 'server', 'store', 'compress', 'versions']) require('hers/' + name);
      console.log(typeof connect, MasterSeed === require('hers/client').MasterSeed);`;
    assert.equal(runScript(hers.folder, 'app.cjs', code), 'function true\n');
  });

  it('encrypts and scans in worker threads', () => {
    const code = `
      import { connect, MasterSeed } from 'hers';
      const threads = [];
      process.on('worker', (thread) => threads.push(thread.on('error', (error) => { throw error; })));
      const db = await connect('file:./threads', { key: MasterSeed.generate(), threads: 2 });
      const faces = await db.createCollection('faces', { dimension: 16 });
      const records = Array.from({ length: 6000 }, (_, i) => ({
        id: 'r' + i,
        vector: Array.from({ length: 16 }, () => Math.random() - 0.5),
      }));
      await faces.upsert(records);
      await faces.optimize();
      console.log((await faces.search(records[4321].vector, { limit: 1 })).matches[0].id, threads.length > 1);
      await db.close();`;
    assert.equal(runScript(hers.folder, 'threads.js', code), 'r4321 true\n');
  });

  it('scans by WebAssembly where the addon does not load, and says so', part('compiler'), () => {
    const { folder } = hers;
    const path = join(folder, `node_modules/hers/lib/scan/build/hers_scan.${process.platform}-${process.arch}.node`);
    assert.ok(existsSync(path));
    const kernel = () => {
      const bin = join(folder, 'node_modules/.bin/hers');
      const { stdout } = spawnSync(bin, ['doctor'], { cwd: folder, env, encoding: 'utf8' });
      return /kernel\t(\w+) /.exec(stdout)?.[1];
    };
    assert.equal(kernel(), 'native');
    const bytes = readFileSync(path);
    writeFileSync(path, 'no addon');
    try {
      assert.equal(kernel(), 'wasm');
      writeFileSync(join(folder, 'app.js'), readmeExample());
      const { stdout, stderr } = spawnSync(process.execPath, ['app.js'], { cwd: folder, env, encoding: 'utf8' });
      assert.match(stdout, /id: 'ada'/);
      assert.match(stderr, /the wasm kernel scans; the native kernel cannot be used/);
    } finally {
      writeFileSync(path, bytes);
    }
  });
});

describe('types', () => {
  /** Checks a file in the strictest way, declarations of the packages included. */
  function check(cwd: string, name: string, code: string, options: object): void {
    writeFileSync(join(cwd, name), code);
    const strict = { strict: true, noEmit: true, target: 'es2024', exactOptionalPropertyTypes: true };
    const config = { compilerOptions: { ...strict, ...options }, files: [name] };
    writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify(config));
    run(cwd, process.execPath, join(root, 'node_modules/typescript/bin/tsc'), '-p', '.');
  }

  before(() => symlinkSync(join(root, 'node_modules/@types'), join(hers.folder, 'node_modules/@types')));
  after(() => rmSync(join(hers.folder, 'node_modules/@types')));

  const all = `${['client', 'server', 'store', 'compress', 'versions', 'browser']
    .map((name) => `import * as ${name} from 'hers/${name}';`)
    .join('\n')}
export const used: readonly (string | Function)[] = [client.connect, server.startServer, store.openStore, compress.fit,
  versions.VersionFile, browser.connect];
// @ts-expect-error: an option that does not exist
export const wrong: Parameters<typeof client.connect>[1] = { keys: 1 };
`;
  for (const [module, moduleResolution] of [
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ] as const) {
    const options = { module, moduleResolution, types: ['node'] };
    it(`are found by moduleResolution ${moduleResolution}`, () => {
      check(hers.folder, 'app.ts', readmeExample() + all, options);
    });
  }

  it('of the client need nothing but the DOM', () => {
    const code = `import { connect, MasterSeed, type SearchResult } from '@hers/client';
const db = await connect('https://gallery.example', { key: MasterSeed.generate() });
export const result: SearchResult = await db.collection('faces').then((faces) => faces.search([1, 2]));
`;
    const options = { module: 'esnext', moduleResolution: 'bundler', types: [], lib: ['esnext', 'dom'] };
    check(client.folder, 'page.ts', code, options);
  });
});

describe('the command', () => {
  it('makes a gallery, fills it, searches it and serves it to a client on its own', async () => {
    const work = join(hers.folder, 'work');
    mkdirSync(work);
    run(work, 'npx', '--no', 'hers', 'init', '--example');
    command(work, 'collections', 'create', 'faces', '--dimension', '128');
    command(work, 'import', 'example/faces.npy', '--ids', 'example/people.csv');
    assert.match(command(work, 'search', 'example/probes.npy', '--row', '3', '--limit', '1'), /^person-0750\t/);

    const args = ['serve', '--port', '0', '--console'];
    const server = spawn(join(hers.folder, 'node_modules/.bin/hers'), args, { cwd: work, env });
    try {
      let said = '';
      const address = await new Promise<string>((resolve, reject) => {
        server.stdout.setEncoding('utf8').on('data', (text: string) => {
          said += text;
          const [, found] = /^at\t(\S+)$/m.exec(said) ?? [];
          if (found !== undefined) resolve(found);
        });
        server.once('exit', (code) => reject(new Error(`hers serve ended with ${code}`)));
      });
      for (const file of ['', 'console.js', 'models.js', 'console.css', 'icon.svg', 'hers.js', 'hers-worker.js'])
        assert.equal((await fetch(`${address}/console/${file}`)).status, 200, file);
      const code = `
        import { connect, MasterSeed } from '@hers/client';
        const db = await connect('${address}', { key: MasterSeed.generate(), threads: 2 });
        const notes = await db.createCollection('notes', { dimension: 3 });
        await notes.upsert([{ id: 'ada', vector: [1, 0, 0] }, { id: 'grace', vector: [0, 1, 0] }]);
        console.log((await notes.search([0.1, 0.9, 0], { limit: 1 })).matches[0].id);
        await db.close();
        await connect('file:./gallery', { key: MasterSeed.generate() }).catch(({ code, message }) => console.log(code, message));`;
      assert.match(
        runScript(client.folder, 'remote.js', code),
        /^grace\nINVALID_ARGUMENT this client cannot open a folder, which takes the package hers/,
      );
    } finally {
      const ended = once(server, 'exit');
      server.kill('SIGTERM');
      assert.deepEqual(await ended, [0, null]);
    }
  });

  it('starts as the container starts it, is healthy, and ends on SIGTERM', async () => {
    const container = readFileSync(join(root, 'deploy/Containerfile'), 'utf8').replaceAll('\\\n', '');
    const listed = (name: string) =>
      JSON.parse(new RegExp(`^${name} (?:.* CMD )?(\\[.*\\])$`, 'm').exec(container)![1]!);
    const [, gallery, tokens] = /HERS_GALLERY=\/data(\S+) HERS_TOKENS=\/data(\S+)/.exec(container)!;
    const data = join(folder, 'data');
    mkdirSync(data + gallery!, { recursive: true });
    const variables = { ...env, HERS_GALLERY: data + gallery!, HERS_TOKENS: data + tokens! };
    const start = (...args: string[]) =>
      spawn(join(hers.folder, 'node_modules/.bin/hers'), args, { cwd: data, env: variables });
    const first = start(...listed('CMD'));
    assert.notEqual((await once(first, 'exit'))[0], 0, 'without tokens it serves nobody else');
    assert.equal((await once(start('tokens', 'create', '--scope', 'admin'), 'exit'))[0], 0);
    const server = start(...listed('CMD'), '--port', '0', '--json');
    try {
      const [line] = await once(server.stdout.setEncoding('utf8'), 'data');
      const { port } = new URL(JSON.parse(String(line).split('\n')[0]!).url);
      const [, ...check] = listed('HEALTHCHECK') as string[];
      const health = (at: string) =>
        spawnSync(
          process.execPath,
          check.map((text) => text.replace(':7443', `:${at}`)),
        ).status;
      assert.equal(health(port), 0);
      assert.equal(health('1'), 1);
    } finally {
      const ended = once(server, 'exit');
      server.kill('SIGTERM');
      assert.deepEqual(await ended, [0, null]);
    }
  });

  it('asks for an optional part, and for a clone, in a sentence', () => {
    const complaint = (...args: string[]) => {
      const bin = join(hers.folder, 'node_modules/.bin/hers');
      const { status, stderr } = spawnSync(bin, args, { cwd: join(hers.folder, 'work'), env, encoding: 'utf8' });
      return [status, stderr];
    };
    const needs = 'hers: This needs onnxruntime-node: install it beside hers, and try again.\n';
    assert.deepEqual(complaint('dimension', 'example/faces.npy'), [3, needs]);
    const cuda =
      'hers: the kernel cuda needs @hers/cuda, which is not part of this installation; run it in a clone of the repository, or choose another kernel.\n';
    assert.deepEqual(complaint('search', 'example/probes.npy', '--row', '3', '--kernel', 'cuda'), [3, cuda]);
  });

  const old = olderNode();
  it('and the library tell an older Node what they need', {
    skip: old === undefined && 'there is no older Node on the path',
  }, () => {
    const sentence = /hers: this is Node \S+, and Node 24 is needed; install Node 24 or newer\.\n/;
    const bin = spawnSync(old!, [join(hers.folder, 'node_modules/hers/bin/hers.mjs'), '--version'], {
      encoding: 'utf8',
    });
    assert.deepEqual([bin.status, bin.stdout], [1, '']);
    assert.match(bin.stderr, new RegExp(`^${sentence.source}$`));
    for (const [cwd, name] of [
      [hers.folder, 'hers'],
      [client.folder, '@hers/client'],
    ] as const) {
      const { status, stderr } = spawnSync(old!, ['--input-type=module', '-e', `import '${name}'`], {
        cwd,
        encoding: 'utf8',
      });
      assert.equal(status, 1);
      assert.match(stderr, sentence);
    }
  });
});

/** Calls that end with no error of ours, whatever they are given. */
const NEVER_THROWN_BY: ReadonlySet<string> = new Set([
  ...['Collection.close', 'Database.close', 'Database.[Symbol.asyncDispose]'],
  ...['HersError.constructor', 'CompressError.constructor', 'Compressor.save', 'Runtime.open'],
  ...['MasterSeed.generate', 'MasterSeed.wipe', 'MasterSeed.[Symbol.dispose]', 'MasterSeed.toJSON'],
  ...['CachedLists.read', 'CachedLists.put', 'CachedLists.close', 'ListCache.open', 'ListCache.forget'],
  ...['VersionMemory.read', 'VersionMemory.update', 'VersionMemory.places', 'Service.close', 'serveCrew'],
  ...['Device.close', 'NonceFile.constructor', 'VersionFile.constructor'],
  ...['TokenStore.constructor', 'TokenCheck.constructor', 'Audit.close', 'RunningServer.close', 'keepProcessSmall'],
  ...['FolderStore.damagedCollections', 'FolderStore.[Symbol.asyncDispose]', 'returnFreedMemory'],
]);

describe('the public interface', () => {
  const home = () => join(hers.folder, 'node_modules/hers');

  it('is the one in docs/api/report.md', () => {
    const stale = 'docs/api/report.md is stale: run `npm run docs`, and look at the difference';
    assert.equal(apiReport(home()), readFileSync(REPORT, 'utf8'), stale);
  });

  it('has a sentence for every symbol, field and method', () => {
    assert.deepEqual(undocumented(home()), []);
    const symbols = symbolsOf(join(home(), 'lib/index.d.ts'));
    assert.ok(symbols.has('connect') && symbols.has('SearchOptions') && symbols.size > 50, `${symbols.size} symbols`);
  });

  it('has a sentence for every parameter, and the codes that a call can end with', () => {
    assert.deepEqual(untagged(home(), NEVER_THROWN_BY), []);
    // What the code throws is read as well as what the comments say.
    assert.deepEqual([...thrownBy('MasterSeed.from')], ['INVALID_ARGUMENT']);
    assert.ok(thrownBy('Database.restore').has('INTEGRITY') && thrownBy('Collection.get').has('INVALID_ARGUMENT'));
    // What is caught, and what only ends a signal, is not thrown.
    assert.deepEqual([...thrownBy('TokenCheck.identify')], ['UNAVAILABLE', 'UNAUTHENTICATED']);
    assert.deepEqual([...thrownBy('FolderStore.close'), ...thrownBy('Collection.close')], []);
  });

  it('has examples that the compiler accepts', () => {
    const examples = examplesOf(home());
    assert.ok(examples.length > 20, `${examples.length} examples`);
    const at = join(hers.folder, 'examples-of-the-interface');
    mkdirSync(at);
    writeFileSync(join(at, 'around.d.ts'), aroundExamples(home()));
    for (const [i, { name, code }] of examples.entries())
      writeFileSync(join(at, `${i}-${name.replace(/\W/g, '-')}.ts`), `${code}\nexport {};\n`);
    const compilerOptions = {
      ...{ strict: true, noEmit: true, target: 'es2024', module: 'nodenext', skipLibCheck: true },
      ...{ types: ['node'], typeRoots: [join(root, 'node_modules/@types')] },
    };
    writeFileSync(join(at, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    run(at, process.execPath, join(root, 'node_modules/typescript/bin/tsc'), '-p', '.');
  });
});

testExamples(() => hers.folder, env);

it('using them writes nothing where they are installed', () => {
  assert.deepEqual([hers, client].flatMap(filesOf), installed);
});

function olderNode(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin'];
  return folders
    .map((folder) => join(folder, 'node'))
    .find((path) => {
      if (!existsSync(path)) return false;
      const version = spawnSync(path, ['-p', 'process.versions.node'], { encoding: 'utf8' }).stdout;
      return Number.parseInt(version, 10) >= 20 && Number.parseInt(version, 10) < 24;
    });
}
