// The attackers, in their own process: runs the requested attacks together, and reports the
// outcome. For campaign.ts alone.

import { readFileSync } from 'node:fs';
import { platform } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeMessage, unframe } from '@hers/service';
import { Dice } from '../cheating/dice.ts';
import { ATTACKS } from './attacks.ts';
import { Fight, type Ground, type Operation, Pace, type Schema, type Spoils } from './fight.ts';
import type { Tally } from './tally.ts';

export type Order =
  | { readonly spoils: Spoils }
  /**
   * Runs these attacks for a time. `number` makes their choices differ from those of another run.
   */
  | { readonly attacks: readonly string[]; readonly ms: number; readonly number: number }
  /** These until the process ends. */
  | { readonly hold: readonly string[] };

export type Told =
  | { readonly ready: true }
  /** How many connections are held. */
  | { readonly lines: number }
  | {
      readonly tallies: Record<string, Tally>;
      /** The longest that a slow connection was held. */
      readonly heldMs: Record<string, number>;
      /** CPU time, as a share of one core. */
      readonly share: number;
    };

const tell = (told: Told) => process.send!(told);
let ground: Ground;
process.on('disconnect', () => process.exit());
process.on('message', async (order: Order) => {
  if ('spoils' in order) {
    ground = await groundOf(order.spoils);
    tell({ ready: true });
  } else if ('hold' in order) {
    const { fights } = begin(order.hold, 0);
    await sleep(1500);
    tell({ lines: fights.reduce((sum, { fight }) => sum + fight.lines, 0) });
  } else {
    await makeAttic();
    const { fights, pace, ended } = begin(order.attacks, order.number);
    await sleep(order.ms);
    const { share } = pace;
    for (const { fight } of fights) fight.end();
    await ended;
    tell({
      tallies: Object.fromEntries(fights.map(({ name, fight }) => [name, fight.tally])),
      heldMs: Object.fromEntries(fights.map(({ name, fight }) => [name, fight.heldMs])),
      share,
    });
  }
});

function begin(names: readonly string[], number: number) {
  const pace = new Pace();
  const fights = names.map((name) => {
    const index = ATTACKS.findIndex((attack) => attack.name === name);
    // Every kind comes from its own address, and none from the honest client's: a server may tell
    // them apart.
    const from = platform() === 'linux' ? `127.0.1.${1 + index}` : undefined;
    const fight = new Fight(ground, new Dice(ground.seed, number, index), pace, from);
    return { name, fight, ended: ATTACKS[index].run(fight) };
  });
  return { fights, pace, ended: Promise.all(fights.map(({ ended }) => ended)) };
}

/** Restores and random deletions may have left nothing of it. */
async function makeAttic(): Promise<void> {
  const { url, attic, tokens } = ground;
  await fetch(`${url}/v1/collections`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokens.admin}`, 'content-type': 'application/octet-stream' },
    body: encodeMessage({ name: attic, id: 'a5'.repeat(16) }, [Buffer.alloc(50, 1), Buffer.alloc(50, 2)]) as BodyInit,
    signal: AbortSignal.timeout(5000),
  })
    .then((answer) => answer.body?.cancel())
    .catch(() => {});
}

async function groundOf(spoils: Spoils): Promise<Ground> {
  const { hostname: host, port } = new URL(spoils.url);
  const query = await Array.fromAsync(unframe([readFileSync(spoils.queries)]));
  return { ...spoils, host, port: Number(port), query, api: await operations(spoils.url) };
}

interface Document {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        readonly description: string;
        readonly parameters: { readonly name: string; readonly schema: Schema }[];
        readonly requestBody?: { readonly 'x-hers-head'?: Schema };
        readonly security: unknown[];
      }
    >
  >;
}

/** The limits that the server states. */
async function operations(url: string): Promise<Operation[]> {
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { description, parameters, requestBody, security }]): Operation => {
      const head = requestBody?.['x-hers-head'];
      const scope = /scope (device|write|admin)/.exec(description)?.[1] as 'device' | 'write' | 'admin' | undefined;
      return {
        method: method.toUpperCase(),
        path,
        needs: security.length === 0 ? 'open' : (scope ?? 'search'),
        params: parameters,
        takes: head ? 'message' : requestBody ? 'octets' : 'nothing',
        ...(head ? { head } : {}),
      };
    }),
  );
}
