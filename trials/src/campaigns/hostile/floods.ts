// Too much at once, all of it well formed.

import { type Asked, type Attack, type Fight, messageOf } from './fight.ts';
import type { Line } from './line.ts';

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

/** One token, many concurrent requests. */
function requests(fight: Fight): Promise<void> {
  const { dice, collection } = fight;
  const gets = ['/v1/collections', collection.prey, `${collection.prey}/manifest`, '/metrics', '/v1'];
  return repeated(fight, 200, () => ({ method: 'GET', path: dice.of(gets), access: 'search' }));
}

/** Many concurrent requests with unknown tokens. */
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

/** Connections that are opened and dropped, with or without a request. */
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

/** Searches of many queries each. */
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

export const FLOODS: readonly Attack[] = [
  { name: 'flood of requests', run: requests },
  { name: 'flood of strangers', run: strangers },
  { name: 'flood of connections', run: connections },
  { name: 'flood of searches', run: searches, weight: 1.5 },
  { name: 'flood of large searches', run: large, weight: 1.5 },
];
