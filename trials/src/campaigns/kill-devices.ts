// Kills the server, the keeper and the owner of an open collection at random moments while devices
// ask and enrol, again and again. The owner adds, renews and revokes devices with and without keys
// of their own, optimizes and rotates keys. Each question that was acknowledged is answered once
// and rightly, or refused for a reason that there is; each record that was acknowledged is indexed;
// and the store holds all evaluation keys that the manifest names.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Database, HttpService, MasterSeed } from '@hers/client';
import { type Device, openDevice } from '@hers/client/device';
import { openView } from '@hers/client/testing/view';
import { identities } from '@hers/vectors/synthetic';
import { ServiceProcess } from '../service-process.ts';

const DIMENSION = 16;
const PEOPLE = 60;
/** Of these, `own` have keys of their own, and kiosks enrol. The first is revoked now and then. */
export const DEVICES: readonly string[] = ['own-gate', 'door', 'own-kiosk', 'kiosk', 'own-door'];
export const ROTATE_EVERY = 13;
/** What is waited for at the end, at most. */
const LAST_MS = 120_000;
/** Why a question is not answered whose device was changed after its bundle was made. */
const CHANGED = ['key', 'revoked', 'malformed'];

export interface DevicesTally {
  readonly kills: Readonly<Record<'server' | 'keeper' | 'owner', number>>;
  readonly asked: number;
  readonly answered: number;
  readonly interrupted: number;
  readonly refused: number;
  readonly enrolled: number;
  readonly bundles: number;
  readonly rotations: number;
}

interface Posted {
  readonly device: string;
  /** How often its device had been changed when the bundle came. */
  readonly changes: number;
  /** Of a question: who it is. Of an enrolment: the id. */
  readonly id: string;
  readonly isEnrolment: boolean;
  outcomes: string[];
}

/** A child that is started again whenever it was killed. */
class Child {
  readonly #start: () => ChildProcess;
  readonly #hear: (line: Record<string, unknown>) => void;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  failed: string | undefined;

  constructor(args: readonly string[], hear: (line: Record<string, unknown>) => void) {
    const file = fileURLToPath(new URL('./devices-child.ts', import.meta.url));
    this.#start = () => spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#hear = hear;
  }

  /** Resolves when it is open. */
  async start(): Promise<void> {
    await this.#ended;
    const child = this.#start();
    this.#child = child;
    let errors = '';
    child.stderr!.setEncoding('utf8').on('data', (text) => {
      errors += text;
    });
    const open = Promise.withResolvers<void>();
    const lines = createInterface({ input: child.stdout! });
    lines.on('line', (text) => {
      let line: Record<string, unknown>;
      try {
        line = JSON.parse(text);
      } catch {
        return; // Half a line of one that was killed.
      }
      if ('open' in line) open.resolve();
      else this.#hear(line);
    });
    this.#ended = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        if (signal !== 'SIGKILL') this.failed = `it ended with ${code}:\n${errors}`;
        open.resolve();
        resolve();
      }),
    );
    await open.promise;
    if (this.failed) throw new Error(this.failed);
  }

  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    await this.#ended;
  }
}

/** Throws with what is wrong. */
export async function killDevices(count: number, onProgress?: (line: string) => void): Promise<DevicesTally> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-kill-devices-'));
  const gallery = join(folder, 'gallery');
  let server = await ServiceProcess.start(gallery);
  const { url } = server;
  const port = Number(new URL(url).port);
  const key = MasterSeed.generate();
  const seed = Buffer.from(key.reveal()).toString('hex');
  const db = new Database(new HttpService(url, { retryMs: 120_000 }), { key, threads: 1 });
  const { vectors } = identities(2 * PEOPLE, 1, DIMENSION, { noise: 0.2 }).gallery();
  const vectorOf = (i: number) => vectors.subarray(i * DIMENSION, (i + 1) * DIMENSION);

  const posted = new Map<string, Posted>();
  /** What came before the acknowledgement did. */
  const early = new Map<string, string[]>();
  const unnamed = new Set<string>();
  const outcome = (nonce: unknown, what: string) => {
    // A keeper names no nonce where the signature is not that of the device: it was renewed.
    if (typeof nonce !== 'string') {
      unnamed.add(what);
      return;
    }
    const known = posted.get(nonce)?.outcomes ?? early.get(nonce) ?? [];
    if (!posted.has(nonce)) early.set(nonce, known);
    known.push(what);
  };
  const devices = new Map<string, { readonly device: Device; readonly changes: number }>();
  const changes = new Map<string, number>();
  const tally = { bundles: 0, rotations: 0 };
  const kills = { server: 0, keeper: 0, owner: 0 };
  let running = true;

  const keeper = new Child(['keeper', url, seed, join(folder, 'keeper')], (line) => {
    if ('asked' in line) outcome(line.asked, `asked ${line.id}`);
    else if ('enrolled' in line) outcome(line.enrolled, `enrolled ${line.id}`);
    else if (line.reason !== 'repeated') outcome(line.refused, `refused ${line.reason}`);
  });
  const owner = new Child(['owner', url, seed], (line) => {
    if ('changing' in line) changes.set(String(line.changing), (changes.get(String(line.changing)) ?? 0) + 1);
    if ('rotated' in line) tally.rotations++;
    if (!('bundle' in line)) return;
    const name = String(line.name);
    tally.bundles++;
    devices.get(name)?.device.close();
    const device = openDevice(undefined, String(line.bundle), { retryMs: 120_000 });
    devices.set(name, { device, changes: changes.get(name)! });
  });

  const asker = async () => {
    for (let i = 0; running; i++) {
      await pause(80);
      const name = DEVICES[i % DEVICES.length]!;
      const current = devices.get(name);
      if (!current) continue;
      const isEnrolment = name.includes('kiosk') && i % 3 === 0;
      const person = i % PEOPLE;
      const id = isEnrolment ? `new ${i}` : `person ${person}`;
      const vector = vectorOf(isEnrolment ? PEOPLE + person : person);
      try {
        const { nonce } = await (isEnrolment ? current.device.enrol({ id, vector }) : current.device.ask(vector));
        const outcomes = early.get(nonce) ?? [];
        early.delete(nonce);
        posted.set(nonce, { device: name, changes: current.changes, id, isEnrolment, outcomes });
      } catch (error) {
        const { code } = error as { code?: string };
        // It was revoked or renewed just now, or nobody takes what it posts.
        if (code === 'INBOX_FULL') await pause(500);
        else if (!['FORBIDDEN', 'CLOSED'].includes(String(code))) throw error;
      }
    }
  };
  const killer = async () => {
    try {
      for (let i = 0; i < count; i++) {
        await pause(100 + Math.random() * 1500);
        const which = (['server', 'keeper', 'owner', 'server'] as const)[i % 4]!;
        if (which === 'server') {
          await server.kill();
          server = await ServiceProcess.start(gallery, { port });
        } else {
          const child = which === 'keeper' ? keeper : owner;
          if (child.failed) throw new Error(child.failed);
          await child.kill();
          await child.start();
        }
        kills[which]++;
        onProgress?.(`${i + 1} of ${count} kills, ${posted.size} posts acknowledged`);
      }
    } finally {
      running = false;
    }
  };

  try {
    const faces = await db.createCollection('faces', { dimension: DIMENSION, profile: 'open' });
    const people = Array.from({ length: PEOPLE }, (_, i) => ({ id: `person ${i}`, vector: vectorOf(i) }));
    await faces.upsert(people, { optimize: 'always' });
    await keeper.start();
    await owner.start();
    for (let waited = 0; devices.size < DEVICES.length && waited < LAST_MS; waited += 20) await pause(20);
    await Promise.all([killer(), asker()]);
    await owner.kill();
    const isOpen = ({ outcomes, ...each }: Posted) => outcomes.length === 0 && !isChanged(each, changes);
    for (let waited = 0; [...posted.values()].some(isOpen) && waited < LAST_MS; waited += 50) {
      if (keeper.failed) throw new Error(keeper.failed);
      await pause(50);
    }
    await keeper.kill();
    for (const what of unnamed) if (what !== 'refused signature') throw new Error(`somebody was ${what}`);
    const counts = await check(faces, posted, changes);
    await checkKeys(new HttpService(url), key);
    // What a rotation left behind is taken up, and all is found.
    await faces.rotateKey();
    const { matches } = await faces.search(vectorOf(7), { limit: 1 });
    if (matches[0]?.id !== 'person 7') throw new Error(`after the last rotation, person 7 is ${matches[0]?.id}`);
    return { kills, ...counts, ...tally };
  } finally {
    running = false;
    await keeper.kill();
    await owner.kill();
    for (const { device } of devices.values()) device.close();
    await db.close();
    await server.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether a device was renewed, revoked or in a rotation after the bundle that posted this. */
function isChanged({ device, changes }: Pick<Posted, 'device' | 'changes'>, all: ReadonlyMap<string, number>): boolean {
  return all.get(device)! > changes;
}

async function check(
  faces: Awaited<ReturnType<Database['collection']>>,
  posted: ReadonlyMap<string, Posted>,
  changes: ReadonlyMap<string, number>,
): Promise<Pick<DevicesTally, 'asked' | 'answered' | 'interrupted' | 'refused' | 'enrolled'>> {
  const ids = new Set(await Array.fromAsync(faces.list()));
  const counts = { asked: 0, answered: 0, interrupted: 0, refused: 0, enrolled: 0 };
  for (const [nonce, { device, changes: before, id, isEnrolment, outcomes }] of posted) {
    const what = `${isEnrolment ? 'enrolment' : 'question'} ${nonce} of ${device} (${id}): ${outcomes.join(', ')}`;
    const done = outcomes.filter((each) => /^(?:asked|enrolled) /.test(each));
    const reasons = outcomes.flatMap((each) => (each.startsWith('refused ') ? [each.slice('refused '.length)] : []));
    const wasChanged = isChanged({ device, changes: before }, changes);
    if (outcomes.length === 0 && !wasChanged) throw new Error(`nothing became of ${what}`);
    for (const reason of reasons)
      if (reason !== 'interrupted' && !(wasChanged && CHANGED.includes(reason))) throw new Error(`refused: ${what}`);
    counts.asked++;
    // An enrolment that was interrupted is done again, and said again; an answer never is.
    if (isEnrolment && done.length > 0) {
      if (!ids.has(id)) throw new Error(`not indexed: ${what}`);
      counts.enrolled++;
    } else if (done.length > 1) throw new Error(`answered twice: ${what}`);
    else if (done.length === 1) {
      if (done[0] !== `asked ${id}`) throw new Error(`wrong: ${what}`);
      counts.answered++;
    } else if (reasons.includes('interrupted')) counts.interrupted++;
    else counts.refused++;
  }
  return counts;
}

/** All lists of evaluation keys that the manifest names are there, those of devices too. */
async function checkKeys(service: HttpService, key: MasterSeed): Promise<void> {
  const { evaluation, devices = [] } = (await openView(service, key, 'faces')).view.manifest;
  const names = evaluation.flatMap(({ lists, devices: own = {} }) => [...lists, ...Object.values(own)]);
  const found = await Array.fromAsync(
    service.getLists(
      'faces',
      names.map((name) => new Uint8Array(Buffer.from(name, 'hex'))),
    ),
  );
  if (found.length !== names.length) throw new Error(`${names.length - found.length} lists of keys are missing`);
  for (const { own, revoked, name } of devices) {
    if (!own) continue;
    const list = evaluation.find(({ keyId }) => keyId === own.keyId)?.devices?.[own.secret];
    const isCurrent = evaluation.some(({ keyId }) => keyId === own.keyId);
    if (isCurrent && (list !== undefined) !== (revoked === undefined))
      throw new Error(`device ${name} ${revoked ? 'was revoked and has' : 'has lost its'} evaluation keys`);
  }
}
