// Requests that are small or large on the wire, and much larger once decoded.

import { HANDLE_BYTES } from '@hers/service';
import { type Asked, type Attack, type Fight, messageOf } from './fight.ts';

const MANY = 24;
const MILLION = 1_000_000;

/** As a share of the largest body allowed. */
const part = ({ ground }: Fight, share: number) => Math.floor(ground.bodyBytes * share);

function framed(length: number, claimed = length): Buffer {
  const bytes = Buffer.alloc(4 + length, 0x5a);
  bytes.writeUInt32LE(claimed);
  return bytes;
}

/** Sends every body in turn, a few at a time, starting at varying ones. */
async function throwAll(fight: Fight, many: number, bombs: readonly (Asked | (() => Asked))[]): Promise<void> {
  let next = fight.dice.below(bombs.length);
  await fight.each(many, async () => {
    const bomb = bombs[next++ % bombs.length];
    await fight.ask(typeof bomb === 'function' ? bomb() : bomb);
    await fight.wait(50);
  });
}

/**
 * Sends everything but the last bytes of a body on many connections at once, waits until all have
 * arrived, and then finishes some of them and abandons the others. So the server holds all of them
 * at the same time, and the disk does not fill up.
 */
async function together(fight: Fight, bombs: readonly Asked[], ends: number): Promise<void> {
  let wave = 0;
  while (!fight.isOver) {
    await fight.pace.turn();
    const many = fight.many(MANY);
    const first = wave++ * many;
    await Promise.all(
      Array.from({ length: many }, async (_, i) => {
        const asked = bombs[(first + i) % bombs.length];
        const line = await fight.open();
        if (!line) return;
        const body = asked.body!;
        line.say(fight.head(asked, body.length));
        const isTaken = await line.pour(body.subarray(0, -1));
        if (isTaken) await fight.wait(1000);
        if (isTaken && i < ends) line.say(body.subarray(-1));
        if (!isTaken || i < ends) await fight.hear(line, asked);
        else fight.tally.sent++;
        line.destroy();
      }),
    );
    await fight.wait(200);
  }
}

/** Every four zeros are a frame. */
async function emptyFrames(fight: Fight): Promise<void> {
  const { collection } = fight;
  const head = messageOf(JSON.stringify({ version: fight.ground.preyVersion }), []);
  const zeros = Buffer.alloc(part(fight, 0.99) & ~3);
  const headed = Buffer.concat([head, Buffer.alloc(part(fight, 0.9) & ~3)]);
  await throwAll(fight, 2, [
    { path: `${collection.prey}/search`, access: 'search', body: zeros, about: 'a search of empty frames' },
    { path: `${collection.prey}/search`, access: 'search', body: headed, about: 'a head and empty frames' },
    { path: `${collection.scratch}/commit`, access: 'write', body: zeros, about: 'a commit of empty frames' },
    { path: '/v1/collections', access: 'admin', body: zeros, about: 'a new collection of empty frames' },
    { method: 'PUT', path: `${collection.scratch}/records`, access: 'write', body: zeros, about: 'empty records' },
  ]);
}

/** Records that consist of their handles only: few bytes each, and many. */
async function tinyRecords(fight: Fight): Promise<void> {
  const { collection, dice } = fight;
  const count = Math.floor(part(fight, 0.9) / (4 + HANDLE_BYTES));
  const body = Buffer.alloc(count * (4 + HANDLE_BYTES));
  for (let i = 0; i < count; i++) {
    body.writeUInt32LE(HANDLE_BYTES, i * (4 + HANDLE_BYTES));
    body.writeUInt32LE(i, i * (4 + HANDLE_BYTES) + 4);
    body.writeUInt32LE(dice.below(2 ** 31), i * (4 + HANDLE_BYTES) + 8);
  }
  await throwAll(fight, 2, [
    { method: 'PUT', path: `${collection.scratch}/records`, access: 'write', body, about: 'millions of tiny records' },
  ]);
}

/** JSON heads that are deep, or hold millions of items. */
async function heads(fight: Fight): Promise<void> {
  const { collection } = fight;
  const size = part(fight, 0.4);
  const heads: Record<string, () => string> = {
    deep: () => '['.repeat(size >> 1) + ']'.repeat(size >> 1),
    deeper: () => `{"version":${'{"a":'.repeat(size >> 3)}1${'}'.repeat(size >> 3)}}`,
    wide: () => `{"version":1,"some":[${'{},'.repeat(Math.floor(size / 3))}{}]}`,
    stages: () => `{"expected":1,"records":[${'"x",'.repeat(size >> 2)}"x"]}`,
    keys: () => `{${Array.from({ length: Math.floor(size / 14) }, (_, i) => `"k${i}":0`).join(',')}}`,
    long: () => `{"version":"${'x'.repeat(size)}"}`,
  };
  await throwAll(
    fight,
    2,
    Object.entries(heads).map(([name, head]) => () => ({
      path: name === 'stages' ? `${collection.scratch}/commit` : `${collection.prey}/search`,
      access: name === 'stages' ? ('write' as const) : ('search' as const),
      body: messageOf(head(), []),
      about: `a head that is ${name}`,
    })),
  );
}

/** Lists of a million ids and more: unknown ones, or the same one repeatedly. */
async function ids(fight: Fight): Promise<void> {
  const { ground, collection } = fight;
  const same = (hex: string, bytes: number) =>
    Buffer.alloc(bytes * Math.min(MILLION, Math.floor(part(fight, 0.9) / bytes)), Buffer.from(hex, 'hex'));
  const other = Buffer.alloc(Math.min(16 * MILLION, part(fight, 0.9) & ~31));
  for (let at = 0; at < other.length; at += 16) other.writeUInt32LE(at, at);
  const head = JSON.stringify({ version: ground.preyVersion, some: true });
  const [query] = ground.query;
  const blocks = same(ground.blocks[0], 16);
  const { prey } = collection;
  const access = 'search' as const;
  await throwAll(fight, 2, [
    { path: `${prey}/records/get`, access, body: other, about: 'a million unknown records' },
    { path: `${prey}/records/get`, access, body: same(ground.handles[0], 16), about: 'a record a million times' },
    { path: `${prey}/lists/get`, access, body: other, about: 'half a million unknown lists' },
    {
      path: `${prey}/lists/get`,
      access,
      body: same(ground.lists[0] ?? '00'.repeat(32), 32),
      about: 'a list a million times',
    },
    {
      path: `${prey}/search`,
      access,
      body: messageOf(head, [blocks, query]),
      about: 'a search of a block a million times',
    },
    {
      path: `${prey}/search`,
      access,
      body: messageOf(head, [other, query]),
      about: 'a search of a million unknown blocks',
    },
  ]);
}

/** A few hundred bytes that request large records repeatedly. */
async function largeAnswers(fight: Fight): Promise<void> {
  const { ground, collection } = fight;
  const all = Buffer.from(ground.handles.join(''), 'hex');
  const often = Buffer.concat(Array(10).fill(all));
  await throwAll(fight, 12, [
    { path: `${collection.prey}/records/get`, access: 'search', body: all, about: 'all large records' },
    { path: `${collection.prey}/records/get`, access: 'search', body: often, about: 'all large records ten times' },
    ...ground.blocks.slice(0, 4).map((block) => ({
      method: 'GET',
      path: `${collection.prey}/blocks/${block}`,
      access: 'search' as const,
      about: 'a block',
    })),
  ]);
}

async function largeRecords(fight: Fight): Promise<void> {
  const body = framed(part(fight, 0.83));
  const path = `${fight.collection.scratch}/records`;
  await together(fight, [{ method: 'PUT', path, access: 'write', body, about: 'a record as large as a body' }], 2);
}

async function largeOctets(fight: Fight): Promise<void> {
  const { scratch } = fight.collection;
  const body = Buffer.alloc(part(fight, 0.83), 0x5a);
  // Starts like a block, with false sizes.
  const block = Buffer.concat([Buffer.from(fight.ground.query[0].subarray(0, 64)), body]).subarray(0, body.length);
  await together(
    fight,
    [
      { path: `${scratch}/blocks`, access: 'write', body, about: 'a block of garbage' },
      { path: `${scratch}/blocks`, access: 'write', body: block, about: 'a block that is a query' },
      { path: `${scratch}/lists`, access: 'write', body, about: 'a list of garbage' },
    ],
    6,
  );
}

/** False lengths, in frames and of bodies. */
async function falseLengths(fight: Fight): Promise<void> {
  const { prey, scratch, attic } = fight.collection;
  const claims = [0xffff_ffff, 0x7fff_ffff, fight.ground.bodyBytes, fight.ground.bodyBytes - 1, 2 ** 28];
  const bombs: Asked[] = claims.flatMap((claimed) => {
    const body = framed(2 ** 16, claimed);
    return [
      { path: `${prey}/search`, access: 'search' as const, body },
      { path: `${scratch}/commit`, access: 'write' as const, body },
      { method: 'PUT', path: `${scratch}/records`, access: 'write' as const, body },
      { method: 'PUT', path: `${attic}/snapshot`, access: 'admin' as const, body },
    ].map((asked) => ({ ...asked, about: `a frame that claims ${claimed} bytes` }));
  });
  let next = 0;
  await fight.each(MANY, async () => {
    const asked = bombs[next++ % bombs.length];
    const line = await fight.open();
    if (!line) return;
    // The body too is shorter than it claims.
    line.say(fight.head(asked, fight.dice.of([asked.body!.length, fight.ground.bodyBytes - 8, 2 ** 40])));
    await line.pour(asked.body!);
    await fight.hear(line, asked, 1000);
    line.destroy();
  });
}

/** Commits that remove and drop millions, each based on the current version. */
async function commits(fight: Fight): Promise<void> {
  const { collection } = fight;
  const removed = Buffer.alloc(part(fight, 0.8) & ~31);
  for (let at = 0; at < removed.length; at += HANDLE_BYTES) removed.writeUInt32LE(at, at);
  const nothing = Buffer.alloc(0);
  const manifest = Buffer.alloc(100, 7);
  const huge = Buffer.alloc(part(fight, 0.8), 7);
  const records = Array.from({ length: 65_536 }, (_, i) => `stage-${i}`);
  const bombs: readonly (readonly [string, object, Buffer[]])[] = [
    ['removes millions', {}, [manifest, removed, nothing, nothing]],
    ['drops millions of blocks', {}, [manifest, nothing, removed, nothing]],
    ['drops millions of lists', {}, [manifest, nothing, nothing, removed]],
    ['names 65 536 stages', { records }, [manifest, nothing, nothing, nothing]],
    ['has a huge manifest', {}, [huge, nothing, nothing, nothing]],
  ];
  let next = fight.dice.below(bombs.length);
  await fight.each(2, async () => {
    const [about, some, parts] = bombs[next++ % bombs.length];
    const answer = await fight.ask({ method: 'GET', path: collection.scratch, access: 'write' });
    if (answer?.status !== 200) return fight.wait(200);
    const { version: expected } = JSON.parse(answer.body.toString());
    await fight.ask({
      path: `${collection.scratch}/commit`,
      access: 'write',
      body: messageOf(JSON.stringify({ expected, ...some }), parts),
      about: `a commit that ${about}`,
    });
  });
}

/** The header of a snapshot that announces much; the sender decides what follows. */
function snapshotHeader(fight: Fight, extra: number): Buffer {
  const header = Buffer.alloc(64 + extra, 0x20);
  header.fill(0, 0, 64);
  header.write('HERSSNAP', 0, 'latin1');
  header.writeUInt32LE(1, 8);
  for (let i = 16; i < 32; i++) header[i] = fight.dice.below(256);
  header.writeBigUInt64LE(1n, 32);
  header.writeBigUInt64LE(2n ** 40n, 40);
  header.writeUInt32LE(0xffff_ffff, 48);
  header.writeUInt32LE(0xffff_ffff, 52);
  header.writeUInt32LE(16, 56);
  return messageOf(header, []);
}

/**
 * Snapshots that begin validly and never end: huge headers, blocks of many pieces, millions of
 * records.
 */
async function snapshots(fight: Fight): Promise<void> {
  const { attic } = fight.collection;
  const size = part(fight, 0.8);
  const piece = (kind: number, length: number) => {
    const bytes = Buffer.alloc(length, 0x5a);
    bytes[0] = kind;
    return messageOf(bytes, []);
  };
  const times = (bytes: Buffer) => Buffer.alloc(bytes.length * Math.max(1, Math.floor(size / bytes.length)), bytes);
  const small = snapshotHeader(fight, 100);
  const bodies: readonly (readonly [string, Buffer])[] = [
    ['a huge header', snapshotHeader(fight, size)],
    ['a block of large pieces', Buffer.concat([small, times(piece(3, 2 ** 20))])],
    ['a block of tiny pieces', Buffer.concat([small, times(piece(3, 2))])],
    ['the same record again and again', Buffer.concat([small, times(piece(1, 17))])],
    ['the same list again and again', Buffer.concat([small, times(piece(2, 9))])],
    ['large records', Buffer.concat([small, times(piece(1, 2 ** 22))])],
    ['a record as large as a body', Buffer.concat([small, piece(1, size)])],
  ];
  await fight.ask({ method: 'DELETE', path: attic, access: 'admin' });
  let next = fight.dice.below(bodies.length);
  await fight.each(8, async () => {
    const [about, body] = bodies[next++ % bodies.length];
    const asked: Asked = { method: 'PUT', path: `${attic}/snapshot`, access: 'admin', about: `a snapshot of ${about}` };
    const line = await fight.open();
    if (!line) return;
    line.say(fight.head(asked, 2 ** 40));
    if (await line.pour(body)) await fight.wait(500);
    await fight.hear(line, asked, 300);
    line.destroy();
  });
}

export const BOMBS: readonly Attack[] = [
  { name: 'bombs of empty frames', run: emptyFrames },
  { name: 'bombs of tiny records', run: tinyRecords },
  { name: 'bombs in heads', run: heads, weight: 1.5 },
  { name: 'bombs of ids', run: ids, weight: 1.5 },
  { name: 'bombs of large answers', run: largeAnswers },
  { name: 'bombs of large records', run: largeRecords },
  { name: 'bombs of garbage blocks', run: largeOctets },
  { name: 'bombs of false lengths', run: falseLengths },
  { name: 'bombs of commits', run: commits, weight: 1.5 },
  { name: 'bombs of snapshots', run: snapshots },
];
