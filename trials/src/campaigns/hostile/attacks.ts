// Every kind of attack there is: floods and slow clients here, the others in files of their own.

import { BOMBS } from './bombs.ts';
import { type Asked, type Attack, type Fight, messageOf } from './fight.ts';
import type { Line } from './line.ts';
import { MALFORMED } from './malformed.ts';

/** Repeats requests on connections that stay open. */
async function repeated(fight: Fight, many: number, make: () => Asked): Promise<void> {
  const lines: (Line | undefined)[] = [];
  await fight.each(many, async (i) => {
    const line = lines[i] && !lines[i].isClosed ? lines[i] : await fight.open();
    lines[i] = line;
    if (!line) return;
    const answer = await fight.ask(make(), line);
    if (!answer) line.destroy();
    // A client that respects the server's advice would wait longer.
    if (answer && answer.status >= 400) await fight.wait(50);
  });
}

function requests(fight: Fight): Promise<void> {
  const { dice, collection } = fight;
  const gets = ['/v1/collections', collection.prey, `${collection.prey}/manifest`, '/metrics', '/v1'];
  return repeated(fight, 200, () => ({ method: 'GET', path: dice.of(gets), access: 'search' }));
}

function strangers(fight: Fight): Promise<void> {
  const { dice, collection } = fight;
  const body = Buffer.alloc(1000);
  return repeated(fight, 100, () => {
    const path = dice.of([
      `${collection.honest}/search`,
      collection.honest,
      '/v1/collections',
      '/openapi.json',
      '/docs',
    ]);
    const isOpen = !path.startsWith('/v1');
    const isPost = path.endsWith('/search');
    return {
      method: isPost ? 'POST' : 'GET',
      path,
      access: dice.of(['none', 'wrong'] as const),
      isForbidden: !isOpen,
      ...(isPost ? { body } : {}),
    };
  });
}

async function connections(fight: Fight): Promise<void> {
  const { dice } = fight;
  await fight.each(20, async () => {
    const line = await fight.open();
    if (!line) return;
    if (dice.happens(0.5)) {
      const asked: Asked = { method: 'GET', path: '/healthz' };
      line.say(fight.head(asked));
      await fight.hear(line, asked);
    } else fight.tally.sent++;
    line.destroy();
  });
}

/** Valid searches of one query each, more than there is room for. */
function searches(fight: Fight): Promise<void> {
  const { dice, ground, collection } = fight;
  const head = JSON.stringify({ version: ground.preyVersion });
  return repeated(fight, 64, () => ({
    path: `${collection.prey}/search`,
    access: 'search',
    body: messageOf(head, [dice.of(ground.query)]),
  }));
}

function large(fight: Fight): Promise<void> {
  const { ground, collection } = fight;
  const body = messageOf(JSON.stringify({ version: ground.preyVersion }), ground.query);
  return repeated(fight, 16, () => ({
    path: `${collection.prey}/search`,
    access: 'search',
    body,
    about: `POST search of ${ground.query.length} queries`,
  }));
}

const FLOODS: readonly Attack[] = [
  { name: 'flood of requests', run: requests },
  { name: 'flood of strangers', run: strangers },
  { name: 'flood of connections', run: connections },
  { name: 'flood of searches', run: searches, weight: 1.5 },
  { name: 'flood of large searches', run: large, weight: 1.5 },
];

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

const SLOW: readonly Attack[] = [
  { name: 'slow heads', run: heads, weight: 2.5 },
  { name: 'slow bodies', run: bodies, weight: 2.5 },
  { name: 'slow readers of searches', run: searchReaders, weight: 1.5 },
  { name: 'slow readers of records', run: recordReaders, weight: 1.5 },
  { name: 'slow readers of snapshots', run: snapshotReaders, weight: 1.5 },
  { name: 'slow readers of blocks', run: blockReaders, weight: 1.5 },
  { name: 'silent connections', run: silent, weight: 2.5 },
];

export const ATTACKS: readonly Attack[] = [...MALFORMED, ...SLOW, ...FLOODS, ...BOMBS];
/** Those that a server meets when it goes down. */
export const LASTING: readonly string[] = SLOW.map(({ name }) => name);
