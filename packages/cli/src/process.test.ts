// What only a process of its own shows: signals, pipes that close, terminals, an old Node.
//
// Mostly waits: the runner starts it beside others.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import {
  binFolder,
  childEnv,
  hers,
  hersJson,
  launcher,
  Prepared,
  quicklySealed,
  shell,
  temporaryFolder,
  writeGallery,
} from '../testing/cli.ts';

let prepared: Prepared;
let bin: string;
before(async () => {
  prepared = await Prepared.make(writeGallery);
  bin = await binFolder(prepared.folder);
});
after(() => prepared.remove());

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<{ exit: number | null; out: string; err: string }>;
}

function start(
  cwd: string,
  args: readonly string[],
  env: Record<string, string> = {},
  flags: readonly string[] = [],
): Running {
  const child = spawn(process.execPath, [...flags, launcher, ...args], {
    cwd,
    env: childEnv(bin, env),
    stdio: 'pipe',
  });
  let out = '';
  let err = '';
  child.stdout!.setEncoding('utf8').on('data', (text) => (out += text));
  child.stderr!.setEncoding('utf8').on('data', (text) => (err += text));
  return { child, ended: once(child, 'close').then(([exit]) => ({ exit, out, err })) };
}

/** Waits for the end; what does not end by itself is ended. */
async function inTime({ child, ended }: Running, pid = child.pid!) {
  const tooLong = setTimeout(() => process.kill(pid, 'SIGKILL'), 20_000);
  return ended.finally(() => clearTimeout(tooLong));
}

describe('Ctrl-C', () => {
  /** Lines of .jsonl with small vectors, as many as one likes. */
  const line = (i: number) => `{"id":"r${i}","vector":[${(i % 7) + 1},${i % 11},${i % 13},1]}\n`;

  /** Waits until a gallery holds so many blocks, and its log does not change any more. */
  async function quiet(folder: string, blocks: number): Promise<void> {
    let last = '';
    for (let unchanged = 0; unchanged < 4; ) {
      await pause(100);
      const files = await readdir(join(folder, 'gallery/blocks'));
      const { size = 0 } = await stat(join(folder, 'gallery/catalogue.db-wal')).catch(() => ({}) as { size?: number });
      const now = `${files.length} ${size}`;
      unchanged = files.length >= blocks && now === last ? unchanged + 1 : 0;
      last = now;
    }
  }

  test('during an import leaves a whole folder, and says how many records are safe', async () => {
    const folder = await prepared.copy();
    const { child, ended } = start(folder, ['import', '-', '--collection', 'tiny']);
    // A commit holds eight blocks of 2048 records: after one and a bit, the pipe stays open and
    // silent.
    const total = 8 * 2048 + 100;
    let text = '';
    for (let i = 0; i < total; i++) text += line(i);
    child.stdin!.on('error', () => {});
    child.stdin!.write(text);
    await quiet(folder, 9);
    child.kill('SIGINT');
    child.kill('SIGINT'); // npm and a terminal both send one
    const { exit, err, out } = await ended;
    assert.equal(exit, 130, err);
    assert.equal(out, '');
    const [, said] =
      /^hers: stopped: ([\d,]+) records are safe in the collection; run the same command again to resume\.\n$/.exec(
        err,
      ) ?? assert.fail(err);
    const safe = Number(said.replaceAll(',', ''));
    assert.equal(safe, 8 * 2040);
    const kept = Number((await hers(folder, ['count', '--collection', 'tiny'])).out) - 2;
    assert.equal(kept, safe);
    const { healthy } = await hersJson(folder, ['doctor', '--scrub']);
    assert.equal(healthy, true);

    // The same command goes on: what is there is not written twice.
    const again = await hersJson(folder, ['import', '-', '--collection', 'tiny'], { input: text });
    assert.deepEqual([again.written, again.unchanged], [total - safe, safe]);
  });

  test('SIGTERM ends a run as orderly, with its own exit code', async () => {
    const folder = await prepared.copy();
    const { child, ended } = start(folder, ['import', '-', '--collection', 'tiny', '--json']);
    child.stdin!.write(line(1));
    await pause(1200);
    child.kill('SIGTERM');
    const { exit, err } = await ended;
    assert.equal(exit, 143, err);
    const { error } = JSON.parse(err);
    assert.deepEqual([error.code, error.exit], ['INTERRUPTED', 143]);
    assert.match(error.message, /^stopped: nothing was acknowledged; /);
    assert.equal((await hers(folder, ['count', '--collection', 'tiny'])).out, '2\n');
  });
});

describe('a run that is over', () => {
  /** What a module leaves behind, before the command has even begun. */
  for (const [what, source] of [
    ['a handle', `setInterval(() => {}, 2 ** 30);`],
    [
      'a thread that computes for ever',
      `import { Worker, isMainThread } from 'node:worker_threads'; if (isMainThread) new Worker('for (;;);', { eval: true });`,
    ],
    [
      'a thread that waits in a call of the system',
      `import { open } from 'node:fs'; import { isMainThread } from 'node:worker_threads'; if (isMainThread) open(process.env.TEST_PIPE, 'r', () => {});`,
    ],
  ] as const)
    test(`does not wait for what it has left behind: ${what}`, { timeout: 30_000 }, async () => {
      await using folder = await temporaryFolder();
      const pipe = join(folder.path, 'pipe');
      spawnSync('mkfifo', [pipe]);
      const { exit, err } = await inTime(start(folder.path, ['count'], { TEST_PIPE: pipe }, importing(source)));
      assert.deepEqual([exit, err.includes('hers: ')], [3, true], err);
    });

  test('is over when everything was read that it has printed, however slowly', async () => {
    await using folder = await temporaryFolder();
    // More than any pipe holds, and something left behind.
    const much = importing(`process.stdout.write('x'.repeat(2 ** 23)); setInterval(() => {}, 2 ** 30);`);
    const running = start(folder.path, ['--version'], {}, much);
    const { stdout } = running.child;
    stdout!.pause();
    setTimeout(() => stdout!.resume(), 2500);
    const { exit, out } = await inTime(running);
    assert.deepEqual([exit, out.length], [0, 2 ** 23 + '0.1.0\n'.length]);
  });
});

describe('pipes', () => {
  test('a reader that has had enough is no error', async () => {
    const folder = await prepared.copy();
    let text = '';
    const name = 'a long name '.repeat(10);
    for (let i = 0; i < 2000; i++) text += `{"id":"${name}${i}","vector":[1,2,3,${i}]}\n`;
    await hersJson(folder, ['import', '-', '--collection', 'tiny'], { input: text });
    const { exit, out, err } = await shell(
      folder,
      'hers list --collection tiny | head -n 2; hers count --collection tiny',
      childEnv(bin),
    );
    assert.deepEqual([exit, out, err], [0, '0\n1\n2002\n', '']);
  });

  test('output that has no room is an error in one sentence, and not silence', {
    skip: !existsSync('/dev/full'),
  }, async () => {
    const folder = await prepared.copy();
    for (const command of ['list', 'count', 'search probes.npy --row 0', 'collections list --json']) {
      const { exit, err } = await shell(folder, `hers ${command} > /dev/full`, childEnv(bin));
      assert.equal(exit, 7, command);
      assert.match(
        err,
        /^(hers: the disk is full; make room, then run the command again\.|\{"error":\{"exit":7.*\})\n$/,
      );
    }
  });

  test('plain lines, no colours, no progress, and nothing but results on standard output', async () => {
    const folder = await prepared.copy();
    const { exit, out, err } = await shell(folder, 'hers search probes.npy --row 0 --limit 1 | cat', childEnv(bin));
    assert.deepEqual([exit, err], [0, '']);
    assert.match(out, /^ada\t0\.\d+\n$/);
  });
});

const scriptIsThere = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false;

describe('on a terminal', { skip: scriptIsThere ? false : 'no util-linux `script` found: it makes a terminal' }, () => {
  /** Runs a line on a terminal of its own, typing answers as they are asked for. */
  async function onTerminal(
    cwd: string,
    line: string,
    answers: readonly { readonly to: RegExp; readonly type: string }[] = [],
    env: Record<string, string> = {},
  ): Promise<{ exit: number; screen: string }> {
    const child = spawn('script', ['-qec', `stty cols 120; ${line}`, '/dev/null'], {
      cwd,
      env: childEnv(bin, { TERM: 'xterm', ...env }),
      stdio: 'pipe',
    });
    let screen = '';
    const waiting = [...answers];
    let searched = 0;
    child.stdout.setEncoding('utf8').on('data', (text) => {
      screen += text;
      if (!waiting[0]?.to.test(screen.slice(searched))) return;
      searched = screen.length;
      const { type } = waiting.shift()!;
      // A person needs a moment, and so does a prompt that has just appeared.
      setTimeout(() => child.stdin.write(type), 150);
    });
    const [exit] = await once(child, 'close');
    return { exit, screen };
  }

  test('tables have titles, and hints say what comes next', async () => {
    const folder = await prepared.copy();
    const { exit, screen } = await onTerminal(folder, 'hers search probes.npy --row 0 --limit 2 --payload');
    assert.equal(exit, 0, screen);
    const plain = stripVTControlCharacters(screen);
    assert.match(plain, /id\s+score\s+payload\r\nada\s+0\.\d+\s+\{"city":"Delft"\}\r\n/);
    assert.match(plain, /12 of 12 records searched in /);
    assert.notEqual(plain, screen, 'titles are dimmed');
    const grey = await onTerminal(folder, 'hers collections list', [], { NO_COLOR: '1' });
    assert.ok(!grey.screen.includes('\u001b[2m'));
  });

  test('a passphrase is asked for, twice when it is new, and never shown', async () => {
    await using folder = await temporaryFolder();
    const type = 'swordfish\r';
    const made = await onTerminal(folder.path, 'hers init', [
      { to: /Choose a passphrase/, type },
      { to: /The same again/, type },
    ]);
    assert.equal(made.exit, 0, made.screen);
    assert.ok(!made.screen.includes('swordfish'));
    const asked = await onTerminal(folder.path, 'hers collections list', [{ to: /passphrase:/, type }]);
    assert.equal(asked.exit, 0, asked.screen);
    const wrong = await onTerminal(folder.path, 'hers init inner', [
      { to: /Choose a passphrase/, type },
      { to: /The same again/, type: 'swordfisch\r' },
    ]);
    assert.equal(wrong.exit, 4, wrong.screen);
    assert.match(wrong.screen, /the two are not the same/);
    assert.equal(existsSync(join(folder.path, 'inner/hers.key')), false);
  });

  test('a question comes before what cannot be taken back, and Ctrl-C answers it too', async () => {
    const folder = await prepared.copy();
    const no = await onTerminal(folder, 'hers collections delete tiny', [
      { to: /Delete tiny and the 2 records/, type: 'n' },
    ]);
    assert.equal(no.exit, 1, no.screen);
    const stopped = await onTerminal(folder, 'hers collections delete tiny', [{ to: /Delete tiny/, type: '\u0003' }]);
    assert.equal(stopped.exit, 130, stopped.screen);
    assert.equal((await hers(folder, ['count', '--collection', 'tiny'])).out, '2\n');
    const yes = await onTerminal(folder, 'hers collections delete tiny', [{ to: /Delete tiny/, type: 'y' }]);
    assert.equal(yes.exit, 0, yes.screen);
    assert.equal((await hers(folder, ['collections', 'describe', 'tiny'])).exit, 3);
  });

  test('what takes longer than a second shows how far it is', async () => {
    const folder = await prepared.copy();
    // A pipe that takes its time.
    const rows = 8 * 2048;
    const values = `[${Array.from({ length: 4 }, (_, i) => i + 1).join(',')}]`;
    const feed = `process.stdout.write((${JSON.stringify(`${values}\n`)}).repeat(${rows})); setTimeout(() => {}, 2500)`;
    const line = `"${process.execPath}" -e '${feed}' | hers import - --row-ids --collection tiny`;
    const { exit, screen } = await onTerminal(folder, line);
    assert.equal(exit, 0, screen);
    assert.match(screen, /Encrypting {2}[\d,]+ records {2}[\d,]+ records\/s/);
    assert.match(screen, /16,382 records new, 2 replaced; tiny holds 16,384\./);
  });
});

/** Runs this module before anything else. */
const importing = (source: string) => ['--import', `data:text/javascript,${encodeURIComponent(source)}`];

describe('the launcher', () => {
  // An old Node, played by this one: it reports another version.
  const old = importing(`Object.defineProperty(process.versions, 'node', { value: '20.0.0' });`);
  const brought = existsSync(join(launcher, '../../../../node_modules/.bin/node'));

  test('takes the Node of the workspace where the one it is started with is too old', async () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...old, launcher, '--version'], {
      encoding: 'utf8',
      env: childEnv(bin),
    });
    if (brought) assert.deepEqual([status, stdout], [0, '0.1.0\n'], stderr);
    else assert.match(stderr, /this is Node 20\.0\.0, and Node 24 is needed/);
  });

  describe('and the server that it has started', { skip: brought ? false : 'there is no Node to start' }, () => {
    /**
     * `hers serve`, started by an old Node: the process that is known to whoever started it, and
     * the one that serves.
     */
    async function serving() {
      const folder = await prepared.copy();
      const { child, ended } = start(folder, ['serve', '--port', '0', '--json'], {}, old);
      await once(child.stdout!, 'data');
      const { process: server } = JSON.parse(await readFile(join(folder, 'gallery/writer'), 'utf8'));
      assert.notEqual(server, child.pid);
      return { child, server, ended };
    }

    /** How both have ended; the output ends with whoever lives longer. */
    async function both({ child, server, ended }: Awaited<ReturnType<typeof serving>>) {
      const { exit, err } = await inTime({ child, ended }, server);
      const inOrder = err.split('\n').some((line) => line !== '' && JSON.parse(line).msg === 'down');
      return { end: child.signalCode ?? exit, inOrder };
    }

    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      test(`go down in order by a ${signal} to the first`, async () => {
        const pair = await serving();
        pair.child.kill(signal);
        assert.deepEqual(await both(pair), { end: 0, inOrder: true });
      });

    test('go down, the server in order, when the first is killed by kill -9', async () => {
      const pair = await serving();
      pair.child.kill('SIGKILL');
      assert.deepEqual(await both(pair), { end: 'SIGKILL', inOrder: true });
    });

    test('end alike when the server is killed by kill -9', async () => {
      const pair = await serving();
      process.kill(pair.server, 'SIGKILL');
      assert.deepEqual(await both(pair), { end: 'SIGKILL', inOrder: false });
    });
  });

  test('npm run hers works where the person is, and not where npm starts it', async () => {
    const folder = await prepared.copy();
    const env = { ...childEnv(bin), npm_lifecycle_event: 'hers', INIT_CWD: folder };
    const { exit, out } = await shell('/', 'hers count', env);
    assert.deepEqual([exit, out], [0, '12\n']);
  });
});

test('a sealed key is opened by a variable in a process of its own', async () => {
  const folder = await prepared.copy();
  const key = join(folder, 'hers.key');
  await writeFile(key, await quicklySealed('hush', await readFile(key, 'utf8')));
  const { exit, out } = await start(folder, ['count'], { HERS_PASSPHRASE: 'hush' }).ended;
  assert.deepEqual([exit, out], [0, '12\n']);
});
