// npm run pack:trial: the long form of pack.test.ts, with tools that are not part of the clone and
// are installed for it: linters of packages, and pages made by bundlers that search in Chromium.

import assert from 'node:assert/strict';
import { type SpawnSyncOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, extname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Browser, chromium } from 'playwright-core';
import { npm, outside } from './npm.ts';
import { type Installation, install, pack, type Tarball } from './pack.ts';
import { copyExample } from './pack-examples.ts';
import { part } from './parts.ts';

const TOOLS = ['@arethetypeswrong/cli@0.18.5', 'esbuild@0.28.2', 'publint@0.3.25', 'vite@8.3.8', 'webpack@5.112.2'];
/** Other installers, in a folder of their own: they look at what is around them. */
const INSTALLERS = ['pnpm@12.18.0', 'yarn@1.22.22'];

const folder = mkdtempSync(join(tmpdir(), 'hers-trial-'));
const env: NodeJS.ProcessEnv = {
  PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter),
  HOME: process.env.HOME,
  HERS_PASSPHRASE: 'a passphrase for trials',
};

let tarballs: readonly Tarball[];
let project: Installation;

before(() => {
  tarballs = pack(join(folder, 'tarballs'));
  const paths = tarballs.map(({ path }) => path);
  project = install(join(folder, 'project'), paths, TOOLS);
});
after(() => rmSync(folder, { recursive: true }));

function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: project.folder, env, encoding: 'utf8' });
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

const tool = (name: string, ...args: string[]) => run(join(project.folder, 'node_modules/.bin', name), ...args);

describe('linters of packages', () => {
  it('publint finds nothing', () => {
    for (const { path } of tarballs) assert.match(tool('publint', 'run', '--strict', path), /All good!/);
  });

  it('attw finds nothing, for ES modules', () => {
    for (const { path } of tarballs) tool('attw', '--profile', 'esm-only', path);
  });
});

/** Fills a collection and searches it. Workers count when they have said that they can work. */
const PAGE = `
import { connect, MasterSeed } from '@hers/client';

let workers = 0;
globalThis.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    this.addEventListener('message', ({ data }) => data === 'ready' && workers++);
  }
};

async function search(address, name) {
  const db = await connect(address, { key: MasterSeed.generate(), threads: 2 });
  const faces = await db.createCollection(name, { dimension: 16 });
  const records = Array.from({ length: 6000 }, (_, i) => ({
    id: 'r' + i,
    vector: Array.from({ length: 16 }, () => Math.random() - 0.5),
  }));
  await faces.upsert(records);
  const { matches } = await faces.search(records[4321].vector, { limit: 1 });
  await db.close();
  return { id: matches[0].id, workers };
}

const { searchParams } = new URL(location.href);
search(searchParams.get('server'), searchParams.get('name')).then(
  (result) => { globalThis.result = result; },
  (error) => { globalThis.result = { error: String(error) }; },
);
`;

const HTML = '<!doctype html><script type="module" src="./main.js"></script>';

/** How each bundler makes a folder with a page from `main.js`. */
const BUNDLERS: Readonly<Record<string, (source: string, target: string) => void>> = {
  vite(source, target) {
    tool('vite', 'build', source, '--outDir', target, '--base', './', '--logLevel', 'warn');
  },
  esbuild(source, target) {
    const script = `
      import { build } from 'esbuild';
      const entryPoints = { main: ${JSON.stringify(join(source, 'main.js'))}, 'crew-worker.web': '@hers/client/worker' };
      const options = { bundle: true, minify: true, format: 'esm', splitting: true, chunkNames: '[name]-[hash]' };
      await build({ ...options, entryPoints, outdir: ${JSON.stringify(target)} });`;
    run(process.execPath, '--input-type=module', '-e', script);
    writeFileSync(join(target, 'index.html'), HTML);
  },
  webpack(source, target) {
    const script = `
      import webpack from 'webpack';
      const output = { path: ${JSON.stringify(target)}, filename: 'main.js' };
      // How large a page should be is no finding about a package.
      const performance = { hints: false };
      const options = { mode: 'production', entry: ${JSON.stringify(join(source, 'main.js'))}, output, performance };
      webpack(options, (error, stats) => {
        if (error || stats.hasErrors() || stats.hasWarnings()) {
          console.error(error ?? stats.toString());
          process.exitCode = 1;
        }
      });`;
    run(process.execPath, '--input-type=module', '-e', script);
    writeFileSync(join(target, 'index.html'), HTML);
  },
};

/** Uses an installation: encrypts, searches in threads, and scans with what is chosen there. */
const USE = `
import { connect, MasterSeed } from 'hers';
const db = await connect('file:./gallery', { key: MasterSeed.generate(), threads: 2 });
const faces = await db.createCollection('faces', { dimension: 3 });
await faces.upsert([{ id: 'ada', vector: [1, 0, 0] }, { id: 'grace', vector: [0, 1, 0] }]);
await faces.optimize();
console.log((await faces.search([0.1, 0.9, 0], { limit: 1 })).matches[0].id);
await db.close();`;

describe('an installation', () => {
  /** What lies there: names, sizes and times of every file. */
  const contents = (where: string) =>
    readdirSync(where, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const { size, mtimeMs } = statSync(join(entry.parentPath, entry.name));
        return `${entry.parentPath}/${entry.name} ${size} ${mtimeMs}`;
      })
      .sort();
  const start = (cwd: string, command: string, args: readonly string[], options: SpawnSyncOptions = {}) => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, ...options, encoding: 'utf8' });
    assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
    return stdout;
  };
  const hersTarball = () => tarballs.find(({ name }) => name === 'hers')!.path;
  let installers: Installation;
  before(() => {
    installers = install(join(folder, 'installers'), [], INSTALLERS);
  });

  for (const [name, ...args] of [
    ['pnpm', 'add', '--ignore-scripts', '--store-dir', '../pnpm-store'],
    ['yarn', 'add', '--ignore-scripts', '--non-interactive', '--no-progress', '--cache-folder', '../yarn-cache'],
  ] as const)
    it(`by ${name} works, and nothing is written into it`, () => {
      const home = join(folder, name);
      mkdirSync(home);
      writeFileSync(join(home, 'package.json'), JSON.stringify({ name: 'trial', private: true, type: 'module' }));
      // Where packages come from, the environment says.
      const around = { env: { ...outside(), ...env } };
      start(home, join(installers.folder, 'node_modules/.bin', name), [...args, hersTarball()], around);
      const before = contents(join(home, 'node_modules'));
      assert.ok(before.length > 500, `${before.length} files`);
      writeFileSync(join(home, 'use.js'), USE);
      assert.equal(start(home, process.execPath, ['use.js']), 'grace\n');
      start(home, join(home, 'node_modules/.bin/hers'), ['init', '--example']);
      assert.deepEqual(contents(join(home, 'node_modules')), before);
    });

  it('for all users, read-only, works for another user, and nothing is written into it', {
    skip: process.getuid?.() !== 0 && 'only root can be another user',
  }, () => {
    const prefix = join(folder, 'global');
    npm(
      ['install', '--global', '--prefix', prefix, '--ignore-scripts', '--no-audit', '--no-fund', hersTarball()],
      folder,
    );
    start(folder, 'chmod', ['-R', 'a+rX,a-w', prefix]);
    chmodSync(folder, 0o755);
    const before = contents(prefix);
    const work = join(folder, 'nobody');
    mkdirSync(work);
    const nobody = 65534;
    chownSync(work, nobody, nobody);
    // Node must be one that this user may start.
    const node = join(work, 'node');
    copyFileSync(process.execPath, node);
    chmodSync(node, 0o755);
    const as = { uid: nobody, gid: nobody, env: { ...env, HOME: '/nonexistent', PATH: `${work}:/usr/bin:/bin` } };
    const hers = join(prefix, 'bin/hers');
    start(work, hers, ['init', '--example'], as);
    start(work, hers, ['collections', 'create', 'faces', '--dimension', '128'], as);
    start(work, hers, ['import', 'example/faces.npy', '--ids', 'example/people.csv'], as);
    const found = start(work, hers, ['search', 'example/probes.npy', '--row', '3', '--limit', '1'], as);
    assert.match(found, /^person-0750\t/);
    assert.deepEqual(contents(prefix), before);
    assert.equal(spawnSync('touch', [join(prefix, 'bin/new')], { uid: nobody, gid: nobody }).status, 1);
  });
});

const browserPart = part('browser');

describe('a page', { skip: browserPart.skip }, () => {
  const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript' };
  const files = createServer((request, response) => {
    const path = new URL(request.url!, 'http://page').pathname.replace(/\/$/, '/index.html');
    try {
      const bytes = readFileSync(join(folder, 'pages', path));
      response.setHeader('content-type', TYPES[extname(path)] ?? 'application/octet-stream').end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  let origin: string;
  let browser: Browser;
  let address: string;
  let server: ReturnType<typeof spawn>;

  before(async () => {
    await once(files.listen(0, '127.0.0.1'), 'listening');
    origin = `http://127.0.0.1:${(files.address() as AddressInfo).port}`;
    browser = await chromium.launch({ executablePath: browserPart.path!, args: ['--no-sandbox'] });
    tool('hers', 'init');
    const bin = join(project.folder, 'node_modules/.bin/hers');
    server = spawn(bin, ['serve', '--json', '--port', '0', '--cors', origin], { cwd: project.folder, env });
    const [line] = await once(server.stdout!.setEncoding('utf8'), 'data');
    address = JSON.parse(String(line).split('\n')[0]!).url;
  });
  after(async () => {
    await browser?.close();
    files.close();
    const ended = server && once(server, 'exit');
    server?.kill('SIGTERM');
    await ended;
  });

  it('of the examples searches', { timeout: 120_000 }, async () => {
    const source = copyExample('page', project.folder);
    BUNDLERS.vite!(source, join(folder, 'pages/example'));
    const page = await browser.newPage();
    await page.goto(`${origin}/example/`);
    await page.fill('[name=server]', address);
    await page.click('button');
    await page.waitForFunction("/Found|:/.test(document.querySelector('output').textContent)");
    assert.match((await page.textContent('output'))!, /^Found person 321, score 0\.9/);
    await page.close();
  });

  for (const [name, build] of Object.entries(BUNDLERS))
    it(`made by ${name} searches with workers`, { timeout: 120_000 }, async () => {
      const source = join(project.folder, `page-${name}`);
      mkdirSync(source);
      writeFileSync(join(source, 'main.js'), PAGE);
      writeFileSync(join(source, 'index.html'), HTML);
      build(source, join(folder, 'pages', name));
      const page = await browser.newPage();
      const complaints: string[] = [];
      page.on('console', (message) => complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(error.message));
      await page.goto(`${origin}/${name}/?server=${encodeURIComponent(address)}&name=${name}`);
      await page.waitForFunction('globalThis.result !== undefined', undefined, { timeout: 60_000 }).catch((error) => {
        throw new Error(`${error.message}\n${complaints.join('\n')}`);
      });
      const result = await page.evaluate<{ id: string; workers: number }>('globalThis.result');
      assert.equal(result.id, 'r4321', JSON.stringify(result));
      assert.ok(result.workers >= 2, `${result.workers} workers: ${complaints.join('\n')}`);
      await page.close();
    });
});
