// Nothing that is sent or asked for takes memory out of proportion: what is held is counted, and
// what is too much is refused before it is there.
//
// Mostly waits: the runner starts it beside others.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { encodeMessage, frame, type Service, withMethods } from '@hers/service';
import { FACES, filled, head, measure, metrics, open, post, settled } from '../testing/clients.ts';
import { served } from '../testing/server.ts';
import { Hold, Memory } from './memory.ts';

const MIB = 2 ** 20;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
/** Of which 1000 may be held. */
const GROWTH = 1000 / 0.6;

describe('what is held', () => {
  it('is counted, and half of it is enough for one caller', () => {
    const memory = new Memory(GROWTH, undefined, measure);
    const [a, b, c] = ['x', 'x', 'y'].map((caller) => new Hold(memory, caller));
    a.take(400);
    assert.throws(() => b.take(101), { code: 'OVERLOADED' });
    b.take(100);
    c.take(400);
    assert.throws(() => c.take(101), { code: 'OVERLOADED' });
    assert.equal(memory.held, 900);
    b.take(-100);
    a.end();
    assert.equal(memory.held, 400);
    assert.equal(memory.heldBy('x'), 0);
  });

  it('may be one thing of any size, where there is nothing else; what it only unpacks to may not', () => {
    const memory = new Memory(GROWTH, undefined, measure);
    const alone = new Hold(memory, 'x');
    alone.take(5000);
    assert.throws(() => new Hold(memory, 'y').take(63), { code: 'OVERLOADED' });
    new Hold(memory, 'z').take(62); // little enough for everybody
    alone.take(-4900);
    assert.throws(() => alone.takeWithin(901, 'ids'), { code: 'TOO_LARGE' });
    alone.takeWithin(800, 'ids');
  });

  it('is none of what has ended', () => {
    const memory = new Memory(GROWTH, undefined, measure);
    const hold = new Hold(memory, 'x');
    hold.take(10);
    hold.end();
    hold.take(-10);
    hold.add(50);
    assert.throws(() => hold.take(1), { code: 'OVERLOADED' });
    assert.equal(memory.held, 0);
  });

  it('is refused to all but small callers while the process itself has no room, however little is counted', async () => {
    let bytes = 100e6;
    const memory = new Memory(
      GROWTH,
      undefined,
      () => bytes,
      () => 100e6,
    );
    new Hold(memory, 'x').take(10);
    bytes += 1300;
    await pause(20);
    assert.throws(() => new Hold(memory, 'y').take(100), { code: 'OVERLOADED' });
    assert.throws(() => new Hold(memory, 'y').take(400), { code: 'OVERLOADED' });
    new Hold(memory, 'y').take(60); // little
    bytes -= 1300;
    await pause(20);
    new Hold(memory, 'z').take(400);
    memory.close();
  });

  it('is refused only after garbage was collected, where there is any', async () => {
    const growth = 80 * MIB;
    let bytes = 100e6;
    let looks = 0;
    const memory = new Memory(
      growth,
      undefined,
      () => bytes,
      () => {
        looks++;
        return 100e6;
      },
    );
    new Hold(memory, 'x').take(10);
    const last = new Hold(memory, 'y');
    bytes += 0.6 * growth;
    last.take(4 * MIB);
    await pause(100);
    // What is alive is asked for in the beginning, and after every collection.
    assert.equal(looks, 1);
    last.litter(40 * MIB);
    last.take(1);
    await pause(100);
    assert.ok(looks > 1);
    memory.close();
  });

  it('is not taken for what the process needs when it was given back after a collection', async () => {
    let bytes = 100e6;
    const growth = 80 * MIB;
    const memory = new Memory(growth, undefined, () => bytes);
    const hold = new Hold(memory, 'x');
    hold.take(10);
    collect();
    await pause(10);
    // Nobody knows yet how much is left of it.
    hold.litter(0.7 * growth);
    bytes += 0.7 * growth;
    await pause(50);
    assert.throws(() => new Hold(memory, 'y').take(20 * MIB), { code: 'OVERLOADED' });
    memory.close();
  });

  it('counts as grown whatever is not alive', async () => {
    let [bytes, live] = [100e6, 60e6];
    const growth = 80 * MIB;
    const memory = new Memory(
      growth,
      undefined,
      () => bytes,
      () => live,
    );
    /** The engine tells of a collection when the event loop goes round the next time. */
    const collected = async () => {
      collect();
      for (let turns = 0; turns < 10; turns++) await pause(10);
    };
    new Hold(memory, 'x').take(10);
    const isTaken = (mebibytes: number) => {
      const hold = new Hold(memory, 'y');
      hold.take(mebibytes * MIB);
      hold.end();
    };
    // A gallery was opened: this is what it takes from now on.
    bytes += growth;
    live += growth;
    await collected();
    isTaken(20);
    // Threads have started that the engine knows nothing of.
    bytes += growth;
    memory.started();
    isTaken(20);
    // Evaluation keys have come to stay.
    bytes += growth;
    memory.keep(growth);
    await collected();
    isTaken(20);
    // What is freed and not given back leaves less room.
    bytes += growth / 2;
    await collected();
    isTaken(10);
    assert.throws(() => isTaken(25), { code: 'OVERLOADED' });
    memory.close();
  });

  it('makes room by ending what is slow, for the next time', () => {
    const asked: unknown[] = [];
    const memory = new Memory(GROWTH, (...args) => asked.push(args), measure);
    const [a, b] = ['x', 'y'].map((caller) => new Hold(memory, caller));
    a.take(450);
    b.take(450);
    assert.throws(() => new Hold(memory, 'x').take(100), { code: 'OVERLOADED' });
    assert.throws(() => new Hold(memory, 'z').take(300), { code: 'OVERLOADED' });
    assert.deepEqual(asked, [[50, 'x'], [200]]);
    a.end();
    new Hold(memory, 'z').take(300);
  });
});

/** Follows what a server says it holds. */
async function peakWhile(url: string, work: Promise<unknown>): Promise<number> {
  let peak = 0;
  let over = false;
  const ended = work.finally(() => {
    over = true;
  });
  while (!over) {
    peak = Math.max(peak, (await metrics(url)).get('hers_held_bytes')!);
    await pause(5);
  }
  await ended;
  return peak;
}

it('records that come in large frames are counted', async () => {
  const limit = 32 * MIB;
  await using server = await served({ measure, limits: { memoryBytes: limit } });
  await filled(server.store);
  const body = frame(Buffer.alloc(6 * MIB));
  const answers = Promise.all(
    Array.from({ length: 24 }, async () => {
      const answer = await post(server.url, `${FACES}/records`, body, 'PUT').catch(() => undefined);
      await answer?.arrayBuffer();
      return answer?.status;
    }),
  );
  const peak = await peakWhile(server.url, answers);
  const statuses = await answers;
  assert.ok(peak <= limit, `${peak} bytes`);
  assert.ok(statuses.includes(429), `${statuses}`);
  assert.ok(
    statuses.every((status) => status === 201 || status === 429 || status === undefined),
    `${statuses}`,
  );
  await settled(server.url);
  assert.equal((await metrics(server.url)).get('hers_held_bytes'), 0);
});

it('streams to readers that do not read are counted', async () => {
  const limit = 8 * MIB;
  await using server = await served({ measure, limits: { memoryBytes: limit } });
  await filled(server.store, 40, { set: 'n_4096_logq_30_30_wide_4', width: 16 });
  const connections = [];
  for (let i = 0; i < 8; i++) {
    const connection = await open(server.url);
    connection.socket.pause();
    connection.socket.write(head('GET', `${FACES}/snapshot`));
    connections.push(connection);
  }
  // As many as there is room for; the others are refused when their turn comes.
  let held = 0;
  while (held < limit / 8) {
    await pause(20);
    held = (await metrics(server.url)).get('hers_held_bytes')!;
  }
  assert.ok(held <= limit, `${held} bytes`);
  // One more is refused, or takes the place of one that has not read for a second.
  const more = await fetch(`${server.url}${FACES}/snapshot`);
  assert.ok(more.status === 429 || more.status === 200, `${more.status}`);
  assert.ok((await metrics(server.url)).get('hers_held_bytes')! <= limit);
  await more.body?.cancel();
  for (const { socket } of connections) socket.destroy();
  await settled(server.url);
  assert.equal((await metrics(server.url)).get('hers_held_bytes'), 0);
  assert.equal((await fetch(`${server.url}${FACES}/snapshot`)).status, 200);
});

it('what a Service says that it holds is counted, and refused where it is too much', async () => {
  const service = (store: Service) =>
    withMethods(store, {
      async *getBlock(_name, _id, options) {
        options!.hold!(20 * MIB);
        yield new Uint8Array(10);
        await pause(300);
        options!.hold!(-20 * MIB);
      },
    });
  await using server = await served({ service, measure, limits: { memoryBytes: 32 * MIB } });
  const block = `${server.url}${FACES}/blocks/${'00'.repeat(16)}`;
  const first = fetch(block);
  await pause(100);
  assert.equal((await metrics(server.url)).get('hers_held_bytes'), 20 * MIB);
  assert.equal((await fetch(block)).status, 429);
  assert.equal((await (await first).arrayBuffer()).byteLength, 10);
});

describe('a server with little memory', () => {
  const HEAP_MIB = 96;
  let folder: string;
  let child: ChildProcess;
  let url: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-memory-'));
    const script = `
      import { startServer } from ${JSON.stringify(new URL('./server.ts', import.meta.url).href)};
      import { filled } from ${JSON.stringify(new URL('../testing/clients.ts', import.meta.url).href)};
      import { openStore } from '@hers/store';
      const store = await openStore(process.argv[1]);
      await filled(store);
      const server = await startServer(store, { port: 0, limits: { memoryBytes: ${64 * MIB} } });
      console.log(server.url);
    `;
    const args = [`--max-old-space-size=${HEAP_MIB}`, '--input-type=module', '-e', script, join(folder, 'gallery')];
    child = spawn(process.execPath, args, { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] });
    url = String((await once(child.stdout!, 'data'))[0]).trim();
  });
  after(async () => {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  const zeros = (bytes: number) => new Uint8Array(bytes);
  const words = (bytes: number) => Buffer.alloc(bytes, '{},');
  const headOf = (json: string | Uint8Array) => frame(typeof json === 'string' ? Buffer.from(json) : json);
  const ids = (count: number) =>
    Buffer.alloc(
      16 * count,
      Uint8Array.from({ length: 4096 }, (_, i) => i * 7),
    );
  const commit = (removed: Uint8Array, dropped: Uint8Array) =>
    encodeMessage({ expected: 2 }, [zeros(7), removed, zeros(0), dropped, zeros(0)]);
  const bombs: [string, string, string, () => Uint8Array][] = [
    ['a message of empty frames to search', 'POST', `${FACES}/search`, () => zeros(24 * MIB)],
    ['a message of empty frames to commit', 'POST', `${FACES}/commit`, () => zeros(24 * MIB)],
    ['a message of empty frames to create', 'POST', '/v1/collections', () => zeros(24 * MIB)],
    [
      'a head of many objects',
      'POST',
      `${FACES}/commit`,
      () => headOf(Buffer.concat([Buffer.from('['), words(24 * MIB), Buffer.from('{}]')])),
    ],
    ['a deep head', 'POST', `${FACES}/search`, () => headOf('['.repeat(20 * MIB))],
    ['many handles', 'POST', `${FACES}/records/get`, () => ids(1_500_000)],
    ['many list ids', 'POST', `${FACES}/lists/get`, () => ids(1_500_000)],
    ['many block ids', 'POST', `${FACES}/search`, () => encodeMessage({ version: 2, some: true }, [ids(1_500_000)])],
    ['many handles to remove', 'POST', `${FACES}/commit`, () => commit(ids(1_500_000), zeros(16))],
    ['many blocks to drop', 'POST', `${FACES}/commit`, () => commit(zeros(16), ids(1_500_000))],
    ['a block of zeros', 'POST', `${FACES}/blocks`, () => zeros(30 * MIB)],
    ['a frame that claims four gigabytes', 'PUT', `${FACES}/records`, () => Buffer.alloc(8, 0xff)],
    ['a snapshot that claims four gigabytes', 'PUT', '/v1/collections/new/snapshot', () => Buffer.alloc(8, 0xff)],
    ['empty records without end', 'PUT', `${FACES}/records`, () => Buffer.alloc(24 * MIB, frame(zeros(16)))],
  ];
  for (const [name, method, path, body] of bombs)
    it(`survives ${name}`, async () => {
      const answer = await post(url, path, body(), method);
      const { code } = (await answer.json()) as { code: string };
      assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${code}`);
      assert.equal((await fetch(`${url}/healthz`)).status, 200);
    });

  it('has not taken much more than it may', () => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    const peak = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)![1]) / 1024;
    assert.ok(peak < 64 + HEAP_MIB + 250, `${peak} MiB`);
  });
});
