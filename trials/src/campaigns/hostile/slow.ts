// Slow clients: slow with the head of a request, with its body, with reading the answer, or with
// sending anything at all.

import { type Asked, type Attack, type Fight, messageOf } from './fight.ts';
import type { Line } from './line.ts';

/** Connections of each kind at a time. */
const LINES = 60;
/** More connections than the default limit. */
const SILENT = 4300;
/** Opened at once: the system's queue of new connections is short. */
const BURST = 100;

/** A head that never ends, a few letters at a time. */
async function heads(fight: Fight): Promise<void> {
  const { dice, ground } = fight;
  await fight.each(LINES, async () => {
    const line = await fight.open();
    if (!line) return;
    const operation = dice.of(ground.api);
    const text = `${operation.method} ${operation.path} HTTP/1.1\r\nhost: ${ground.host}\r\n`;
    let at = 0;
    await fight.hold(line, 200 + dice.below(2000), () => {
      line.say(at < text.length ? text.slice(at, (at += 7)) : `x-${at++}: ${at}\r\n`);
    });
    await ended(fight, line, { path: '', about: 'a slow head' });
  });
}

/** Every kind of body, a byte every few seconds. */
async function bodies(fight: Fight): Promise<void> {
  const { dice, ground, collection } = fight;
  const takers = ground.api.filter(({ takes }) => takes !== 'nothing');
  // If the collection exists already, a snapshot is refused at once.
  await fight.ask({ method: 'DELETE', path: collection.attic, access: 'admin' });
  await fight.each(LINES, async (i) => {
    const { method, path, takes, needs } = takers[i % takers.length];
    const access = needs === 'admin' ? 'admin' : 'write';
    const own = access === 'write' ? ground.scratch : ground.attic;
    const asked: Asked = {
      method,
      path: path.replace('{name}', own),
      access,
      about: `${method} ${path} (${access}), a slow body`,
    };
    const line = await fight.open();
    if (!line) return;
    const length = dice.of([1000, 1_000_000, ground.bodyBytes]);
    line.say(fight.head(asked, length));
    // Some send much at first, and then hardly anything.
    if (takes === 'octets' && dice.happens(0.3)) await line.pour(Buffer.alloc(Math.min(length >> 1, 2 ** 21), 1));
    await fight.hold(line, dice.of([200, 2000, 5000]), () => line.say('\u0001'));
    await ended(fight, line, asked);
  });
}

/** A large answer that is requested and hardly read. */
async function read(fight: Fight, make: () => Asked): Promise<void> {
  await fight.each(LINES, async () => {
    const asked = make();
    const line = await fight.open();
    if (!line) return;
    line.pause();
    line.say(fight.head(asked, asked.body?.length));
    if (asked.body) await line.pour(asked.body);
    // A little now and then, so that the connection is never quite idle.
    await fight.hold(line, 1000, () => {
      if (!fight.dice.happens(0.5)) return;
      line.resume();
      setTimeout(() => line.pause(), 1);
    });
    line.resume();
    await ended(fight, line, asked);
  });
}

function searchReaders(fight: Fight): Promise<void> {
  const { ground, collection } = fight;
  const body = messageOf(JSON.stringify({ version: ground.preyVersion }), ground.query);
  const about = 'a slow reader of a search';
  return read(fight, () => ({ path: `${collection.prey}/search`, access: 'search', body, about }));
}

function recordReaders(fight: Fight): Promise<void> {
  const { ground, collection } = fight;
  const body = Buffer.from(ground.handles.join(''), 'hex');
  const about = 'a slow reader of records';
  return read(fight, () => ({ path: `${collection.prey}/records/get`, access: 'search', body, about }));
}

function snapshotReaders(fight: Fight): Promise<void> {
  const path = `${fight.collection.prey}/snapshot`;
  return read(fight, () => ({ method: 'GET', path, access: 'keeper', about: 'a slow reader of a snapshot' }));
}

function blockReaders(fight: Fight): Promise<void> {
  const { dice, ground, collection } = fight;
  return read(fight, () => ({
    method: 'GET',
    path: dice.happens(0.2) ? `${collection.prey}/manifest` : `${collection.prey}/blocks/${dice.of(ground.blocks)}`,
    access: 'search',
    about: 'a slow reader of a block',
  }));
}

/** Connections that never send anything, as many as possible. */
async function silent(fight: Fight): Promise<void> {
  await fight.each(SILENT / BURST, async () => {
    for (let i = 0; i < BURST && !fight.isOver; i++) {
      const line = await fight.open();
      if (line) void fight.hold(line, 1000, () => {}).then(() => ended(fight, line, { path: '', about: 'silence' }));
    }
    // Those that were closed are replaced later.
    await fight.wait(10_000);
  });
}

/** Reads the final answers. */
async function ended(fight: Fight, line: Line, asked: Asked): Promise<void> {
  await fight.hear(line, asked, 100);
  line.destroy();
}

export const SLOW: readonly Attack[] = [
  { name: 'slow heads', run: heads, weight: 2.5 },
  { name: 'slow bodies', run: bodies, weight: 2.5 },
  { name: 'slow readers of searches', run: searchReaders, weight: 1.5 },
  { name: 'slow readers of records', run: recordReaders, weight: 1.5 },
  { name: 'slow readers of snapshots', run: snapshotReaders, weight: 1.5 },
  { name: 'slow readers of blocks', run: blockReaders, weight: 1.5 },
  { name: 'silent connections', run: silent, weight: 2.5 },
];
