// `hers devices` and `hers keeper`: cameras, phones and kiosks that hold no secret of the gallery,
// and who answers what they ask (docs/devices.md).

import { setTimeout as pause } from 'node:timers/promises';
import { type Collection, HersError, type Question, type Refusal } from '@hers/client';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { messageOf, usageError } from '../exit.ts';
import { namesIn } from '../fields.ts';
import { isServer } from '../gallery.ts';
import { columns } from '../output.ts';
import { writePrivately } from '../private-file.ts';

interface AddFlags {
  readonly address?: string;
  readonly enrol?: number;
  readonly into?: string;
  readonly makeToken?: boolean;
  readonly ownKey?: boolean;
  readonly output?: string;
}

interface KeeperFlags {
  readonly limit: number;
  readonly threshold?: number;
  readonly select?: readonly string[];
  readonly groupBy?: string;
  readonly webhook?: string;
  readonly once?: boolean;
  readonly poll: number;
  readonly enrol: boolean;
  readonly remember?: string;
}

/** How often a webhook is tried, and the pause before the second time. */
const TRIES = 5;
const FIRST_PAUSE_MS = 200;
const WEBHOOK_MS = 10_000;
/** Between attempts while the server cannot be reached. */
const LONGEST_PAUSE_MS = 30_000;

export function addDevices(program: HersCommand, context: () => Context): void {
  const devices = program
    .command('devices')
    .summary('cameras and kiosks that hold no secret of the gallery')
    .description(
      'A device of a collection of the profile open asks and enrols, and cannot decrypt anything. What it posts waits on the server until the keeper, who has the key, answers it (`hers keeper`). The list of devices is sealed in the gallery: whoever keeps that knows them by their numbers alone.',
    );

  const add = devices
    .command('add')
    .summary('make the bundle of a device')
    .description(
      'Adds a device and prints its bundle, or writes it to a file: all that the device needs. The bundle is secret, because whoever has it can ask and enrol as this device; it opens nothing. With --make-token the token of the device goes into it; otherwise make one where the server keeps its tokens, by `hers tokens create --scope device`.',
    )
    .argument('<name>', 'what you call it; whoever keeps the gallery does not learn it');
  addBundleOptions(add)
    .number('--enrol <number>', 'let it enrol so many records; none by default', 'whole')
    .option('--into <partition>', 'with --enrol, in a collection with partitions: into this one')
    .example('hers devices add door-3 --make-token > door-3.device', 'A door that asks')
    .example('hers devices add gate --own-key --make-token > gate.device', 'A gate over a slow network')
    .example('hers devices add kiosk --enrol 1000 --output kiosk.device', 'A kiosk that enrols up to 1000 people')
    .action((name: string, flags: AddFlags) => makeBundle(context(), name, flags, false));

  const renew = devices
    .command('renew')
    .summary('make a new bundle for a device')
    .description(
      'Makes a new bundle for a device that there is: after `hers rotate-key`, or where the old bundle was seen by somebody. The old bundle is worth nothing from then on. The number of the device, and with it its token, stay.',
    )
    .argument('<name>', 'the device');
  addBundleOptions(renew)
    .example('hers devices renew door-3 --output door-3.device', 'After the key was rotated')
    .action((name: string, flags: AddFlags) => makeBundle(context(), name, flags, true));

  devices
    .command('list')
    .summary('the devices of a collection')
    .description(
      'Lists all devices that there ever were: their numbers, names, whether they have keys of their own, what they may enrol, and when they were added and revoked.',
    )
    .example('hers devices list', 'One a line')
    .action(async () => {
      const { out } = context();
      const all = await context().collection({ read: true }, (collection) => collection.devices());
      if (out.json) out.object({ devices: all });
      else if (all.length === 0) out.note('There are no devices yet; hers devices add makes one.');
      else
        out.table(
          columns('>number', 'name', 'own key', 'enrols', 'added', 'revoked'),
          all.map(({ number, name, hasOwnKey, enrol, added, revoked }) => [
            String(number),
            name,
            hasOwnKey ? 'yes' : '',
            enrol ? `${enrol.most}${enrol.partition === undefined ? '' : ` into ${enrol.partition}`}` : '',
            added.toISOString().slice(0, 10),
            revoked?.toISOString().slice(0, 10) ?? '',
          ]),
        );
    });

  devices
    .command('revoke')
    .summary('revoke a device')
    .description(
      'Revokes devices: the server refuses what they post from then on, and what waits there is not answered. Revoke their tokens as well (`hers tokens revoke`).',
    )
    .argument('<names...>', 'the devices')
    .example('hers devices revoke door-3', 'One that was stolen')
    .action(async (names: string[]) => {
      const { out } = context();
      await context().collection({}, async (collection) => {
        for (const name of names) await collection.revokeDevice(name);
      });
      if (out.json) out.object({ revoked: names });
      else for (const name of names) out.line(`${name} is revoked.`);
    });

  program
    .command('keeper')
    .summary('answer what devices ask')
    .description(
      'Takes what devices have posted, has the server scan their questions, decrypts and ranks, and prints who it is, one line for each; records that devices enrol are indexed as far as they may. It runs until it is ended, and goes on where it was: each question is answered once. Nothing that the server sees depends on an answer, so whatever reads this output must not tell the server either.',
    )
    .number('-n, --limit <number>', 'how many matches', 'whole', 1)
    .number('-t, --threshold <score>', 'only similarities from here up, or distances up to here')
    .option('--select <fields>', 'show these fields of the matches, separated by commas', namesIn)
    .option('--group-by <field>', 'only the best match of all records that have the same keyword in this field')
    .option('--webhook <url>', 'post every answer there, as JSON: to a program inside your walls, never to the server')
    .option('--once', 'answer what is there, and end')
    .number('--poll <seconds>', 'seconds between two looks', 'any', 1)
    .option('--no-enrol', 'leave what devices enrol where it is')
    .option('--remember <file>', 'where to remember what was answered; beside the key by default')
    .example('hers keeper --threshold 0.6', 'Print who stands at which door')
    .example('hers keeper --webhook http://127.0.0.1:8080/asked --json', 'Tell a program')
    .example('hers keeper --once', 'Answer what is there')
    .action((flags: KeeperFlags) => keep(context(), flags));
}

function addBundleOptions(command: HersCommand): HersCommand {
  return command
    .option(
      '--address <url>',
      'where the device posts to, or several nodes of a cluster, separated by commas; the server of --gallery by default',
    )
    .option(
      '--own-key',
      'give it a key of its own: it then sends one kilobyte instead of 29 to ask, at 128 dimensions; whoever steals its bundle can read what it asked before, together with the server; a device that has one keeps having one when it is renewed',
    )
    .option('--make-token', 'make its token in the token file (--tokens), and put it into the bundle')
    .option(
      '-o, --output <file>',
      'write the bundle to this file, for its owner alone, instead of printing it',
    ) as HersCommand;
}

async function makeBundle(context: Context, name: string, flags: AddFlags, renew: boolean): Promise<void> {
  const { out, settings } = context;
  const { address, enrol, into, makeToken = false, ownKey, output } = flags;
  if (into !== undefined && enrol === undefined)
    throw usageError('--into says where a device enrols', 'say how many with --enrol');
  const gallery = settings.value('gallery');
  const several = address?.split(',');
  const where = several?.length === 1 ? address : (several ?? (isServer(gallery) ? gallery : undefined));
  const path = output === undefined ? undefined : context.path(output);
  const { bundle, number, collection } = await context.collection({}, async (collection) => {
    let number: number | undefined;
    const token = async (device: number) => {
      const { TokenStore } = await import('@hers/server/tokens');
      const made = await new TokenStore(settings.value('tokens')).create({
        scope: 'device',
        collection: collection.name,
        device,
      });
      return made.secret;
    };
    const bundle = await collection.addDevice(name, {
      renew,
      ...given({ ownKey, address: where, token: makeToken ? token : undefined }),
      ...(enrol === undefined ? {} : { enrol: { most: enrol, ...given({ partition: into }) } }),
    });
    number = (await collection.devices()).findLast((each) => each.name === name)!.number;
    return { bundle, number, collection: collection.name };
  });
  if (path === undefined && out.json) out.object(JSON.parse(bundle));
  else if (path === undefined) for (const line of bundle.trimEnd().split('\n')) out.line(line);
  else {
    await writePrivately(path, { replace: renew }, (file) => file.writeFile(bundle));
    out.result({ device: name, number, file: path }, `The bundle of ${name} is in ${path}.`);
  }
  if (!makeToken && !renew)
    out.hint(
      `Its token is made where the server keeps them: hers tokens create --scope device --for ${collection} --device ${number}.`,
    );
  out.hint('Keep the bundle like a password: whoever has it can ask and enrol as this device.');
}

async function keep(context: Context, flags: KeeperFlags): Promise<void> {
  const { out, settings, signal } = context;
  const webhook = flags.webhook === undefined ? undefined : webhookOf(flags.webhook, settings.value('gallery'));
  const { NonceFile } = await import('@hers/client/keeper');
  let memory: InstanceType<typeof NonceFile> | undefined;
  const answer = async (collection: Collection) => {
    const path =
      flags.remember === undefined
        ? `${settings.value('key')}.${collection.name}.keeper`
        : context.path(flags.remember);
    memory ??= new NonceFile(path);
    const asked = collection.questions({
      memory,
      limit: flags.limit,
      pollMs: 1000 * flags.poll,
      wait: !flags.once,
      enrol: flags.enrol,
      signal,
      ...given({ threshold: flags.threshold, select: flags.select, groupBy: flags.groupBy }),
      onRefused: (refusal) => tellRefusal(context, refusal),
      onEnrolled: ({ device, time, id, nonce }) => {
        out.result({ enrolled: id, device, time, nonce }, `${time.toISOString()}  ${device}  enrolled ${id}`);
      },
    });
    for await (const question of asked) {
      print(context, question);
      if (webhook) await tell(context, webhook, question);
      await out.taken();
    }
  };
  let delay = FIRST_PAUSE_MS;
  try {
    for (;;) {
      try {
        await context.collection({}, async (collection) => {
          delay = FIRST_PAUSE_MS;
          await answer(collection);
        });
        return;
      } catch (error) {
        // A server that is down comes back; everything else is for a person.
        const isPassing = error instanceof HersError && error.retryable && error.code !== 'LOCKED';
        if (signal.aborted && !flags.once) return; // Ended by a person, as servers are.
        if (flags.once || !isPassing) throw error;
        out.note(`${messageOf(error)}; the next attempt is in ${(delay / 1000).toFixed(1)} s.`);
        await pause(delay, undefined, { signal }).catch(() => {});
        delay = Math.min(2 * delay, LONGEST_PAUSE_MS);
      }
    }
  } finally {
    await memory?.close().catch(() => {});
  }
}

function print({ out }: Context, { device, time, nonce, matches, coverage }: Question): void {
  if (out.json) {
    out.object({ device, time, nonce, matches, coverage });
    return;
  }
  const found = matches.map(({ id, score, fields }) =>
    [id, score.toFixed(3), ...(fields ? [JSON.stringify(fields)] : [])].join(' '),
  );
  out.line(`${time.toISOString()}  ${device}  ${found.length > 0 ? found.join(', ') : 'nobody'}`);
}

function tellRefusal({ out }: Context, { reason, message, device, time, nonce }: Refusal): void {
  // After a restart those are still there that were answered last.
  if (reason === 'repeated') out.detail(`${device ?? 'a device'}: ${message}`);
  else if (out.json) out.object({ refused: reason, message, device, time, nonce });
  else out.note(`${device ?? 'Somebody'} was not answered (${reason}): ${message}.`);
}

/** The address of a webhook: not that of the server, which must not learn what was found. */
function webhookOf(text: string, gallery: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw usageError(`--webhook takes an address, such as http://127.0.0.1:8080/asked, not ${text}`);
  if (isServer(gallery) && new URL(gallery).host === url.host)
    throw usageError(
      'the webhook is the server of the gallery itself, which must not learn an answer',
      'name a program inside your walls',
    );
  return url;
}

async function tell({ out, signal }: Context, url: URL, question: Question): Promise<void> {
  const { device, time, nonce, matches } = question;
  const body = JSON.stringify({ device, time, nonce, matches });
  for (let attempt = 1, delay = FIRST_PAUSE_MS; ; attempt++, delay *= 2) {
    try {
      const within = AbortSignal.any([signal, AbortSignal.timeout(WEBHOOK_MS)]);
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(url, { method: 'POST', headers, body, signal: within, redirect: 'error' });
      await answer.body?.cancel();
      if (answer.ok) return;
      throw new Error(`it answered ${answer.status}`);
    } catch (error) {
      signal.throwIfAborted();
      if (attempt === TRIES) {
        out.note(`warning: ${url.host} was not told of question ${nonce}: ${messageOf(error)}.`);
        return;
      }
      await pause(delay);
    }
  }
}
