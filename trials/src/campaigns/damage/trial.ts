// One case: a gallery is copied, damaged, read, written to, and repaired.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Collection, HersError, type MasterSeed } from '@hers/client';
import { type RepairReport, repairGallery } from '@hers/client/repair';
import { VersionFile } from '@hers/client/versions';
import { Dice } from '../cheating/dice.ts';
import { type CollectionContent, contentsOf } from './contents.ts';
import { type Gallery, readGalleries } from './galleries.ts';
import { ELSEWHERE, type Harm, harm } from './harm.ts';
import { type Item, inventory, missing } from './inventory.ts';
import { type Losses, lossesOf } from './losses.ts';
import { type Access, briefly, change, listAll, look, type Sight } from './sight.ts';
import { idOf, people, plainOf, type Truth, type Truths } from './truth.ts';

/** How the damage was detected, and the outcome of a repair. */
export const MET = ['harmless', 'refused', 'read only', 'at use', 'by scrub'] as const;
export const MENDED = ['whole', 'mended', 'fully', 'with losses', 'refused, admitted'] as const;

export interface Outcome {
  readonly number: number;
  readonly gallery: string;
  readonly harms: Harm[];
  met: (typeof MET)[number];
  mended?: (typeof MENDED)[number];
  readonly failures: string[];
  readonly said: string[];
  /** What it was doing last. */
  step: string;
  lost: number;
  milliseconds: number;
}

/** How often there are two faults at once. */
const DOUBLE = 0.1;
/** How often a repair replaces the folder instead of writing a new one. */
const IN_PLACE = 0.35;
const AFTER_WRITING = 0.4;

export class Trials {
  readonly #seed: number;
  readonly #key: MasterSeed;
  readonly #galleries: readonly Gallery[];
  readonly #contents: ReadonlyMap<string, readonly CollectionContent[]>;
  readonly #room: string;

  private constructor(
    seed: number,
    key: MasterSeed,
    galleries: readonly Gallery[],
    contents: ReadonlyMap<string, readonly CollectionContent[]>,
    room: string,
  ) {
    this.#seed = seed;
    this.#key = key;
    this.#galleries = galleries;
    this.#contents = contents;
    this.#room = room;
  }

  /** On the galleries in `folder`; temporary files go to `room`. */
  static async open(folder: string, seed: number, room: string): Promise<Trials> {
    const { key, galleries } = readGalleries(folder);
    const contents = new Map<string, readonly CollectionContent[]>();
    mkdirSync(room, { recursive: true });
    for (const gallery of galleries) contents.set(gallery.name, await contentsOf(gallery, key, join(room, 'reading')));
    return new Trials(seed, key, galleries, contents, room);
  }

  /** Runs one case, and reports its progress. The folder of a failed case is left at `failedAt`. */
  async run(number: number, failedAt: string, onStep: (so: Outcome) => void = () => {}): Promise<Outcome> {
    const began = performance.now();
    const dice = new Dice(this.#seed, number, 21);
    const gallery = dice.of(this.#galleries);
    const room = join(this.#room, `case-${number}`);
    mkdirSync(room);
    const trial = new Trial(number, gallery, this.#contents.get(gallery.name)!, this.#key, room, dice);
    const { outcome } = trial;
    trial.onStep = (step) => onStep(Object.assign(outcome, { step }));
    try {
      trial.damage(this.#galleries.filter((other) => other !== gallery).map(({ folder }) => folder));
      await trial.go();
    } catch (error) {
      outcome.failures.push(`the case itself failed: ${briefly(error)}`);
    }
    outcome.milliseconds = performance.now() - began;
    if (outcome.failures.length > 0) {
      rmSync(failedAt, { recursive: true, force: true });
      copyFolder(room, failedAt);
      writeFileSync(join(failedAt, 'case.json'), JSON.stringify({ seed: this.#seed, ...outcome }, null, 1));
    }
    rmSync(room, { recursive: true, force: true });
    return outcome;
  }
}

/** Keeps pipes and links as they are. */
function copyFolder(from: string, to: string): void {
  execFileSync('cp', ['-a', '--', from, to]);
}

class Trial {
  readonly outcome: Outcome;
  readonly folder: string;
  readonly #gallery: Gallery;
  readonly #contents: readonly CollectionContent[];
  readonly #key: MasterSeed;
  readonly #room: string;
  readonly #dice: Dice;
  readonly #truths: Truths;
  #losses!: Losses;
  #before: readonly Item[] = [];
  /** The store does not trust the catalogue, so nothing may change it. */
  #isUntouched = false;
  onStep: (step: string) => void = () => {};

  constructor(
    number: number,
    gallery: Gallery,
    contents: readonly CollectionContent[],
    key: MasterSeed,
    room: string,
    dice: Dice,
  ) {
    this.folder = join(room, 'gallery');
    this.#gallery = gallery;
    this.#contents = contents;
    this.#key = key;
    this.#room = room;
    this.#dice = dice;
    this.#truths = new Map([...gallery.truths].map(([name, truth]) => [name, truth.copy()]));
    this.outcome = {
      number,
      gallery: gallery.name,
      harms: [],
      met: 'harmless',
      failures: [],
      said: [],
      step: '',
      lost: 0,
      milliseconds: 0,
    };
  }

  get #pristine(): string {
    return join(this.#room, 'as-damaged');
  }

  damage(foreign: readonly string[]): void {
    copyFolder(this.#gallery.folder, this.folder);
    const aside = join(this.#room, 'aside');
    mkdirSync(aside);
    const scene = { folder: this.folder, older: this.#gallery.older, foreign, aside };
    const harms = Array.from({ length: this.#dice.happens(DOUBLE) ? 2 : 1 }, () => harm(scene, this.#dice));
    this.outcome.harms.push(...harms);
    this.#losses = lossesOf(this.#contents, this.#gallery.folder, this.folder, harms);
    copyFolder(this.folder, this.#pristine);
    this.#before = inventory(this.folder);
  }

  #fail(what: string): void {
    this.outcome.failures.push(what);
  }

  /** A memory that has seen the last state of the gallery in this folder. */
  #memory(folder: string): VersionFile {
    const path = `${folder}.versions`;
    if (!existsSync(path)) {
      const seen = JSON.parse(readFileSync(this.#gallery.versions, 'utf8'));
      for (const row of seen.collections) row.gallery = `file:${folder}`;
      writeFileSync(path, JSON.stringify(seen));
    }
    return new VersionFile(path);
  }

  #access(mode: 'write' | 'read', folder = this.folder): Access {
    return { folder, key: this.#key, versions: this.#memory(folder), mode };
  }

  #take(sight: Sight, when: string): void {
    for (const wrong of sight.wrong) this.#fail(`${when}: ${wrong}`);
    for (const { stage, code, message } of sight.said) this.outcome.said.push(`${when}, ${stage}: ${code} ${message}`);
  }

  async go(): Promise<void> {
    this.onStep('read');
    const read = await look(this.#access('read'), this.#truths, this.#dice);
    this.#take(read, 'read');
    this.#checkKept('reading', true);
    this.onStep('write');
    const write = await look(this.#access('write'), this.#truths, this.#dice);
    this.#take(write, 'write');
    this.#isUntouched = !write.isOpen || write.isReadOnly;
    this.#checkKept('opening to write', this.#isUntouched);
    this.#checkSaid([read, write]);
    this.outcome.met = metBy(write);

    const isBefore = !this.#dice.happens(AFTER_WRITING);
    if (isBefore) {
      const copy = join(this.#room, 'to-repair');
      copyFolder(this.#pristine, copy);
      await this.#repair(copy);
    }
    this.onStep('change');
    this.#take(await change(this.#access('write'), this.#truths, this.#dice, alter), 'change');
    this.onStep('look after the change');
    this.#take(await look(this.#access('write'), this.#truths, this.#dice), 'after the change');
    if (!isBefore) await this.#repair(this.folder);
  }

  #checkKept(when: string, isUntouched: boolean): void {
    for (const path of missing(this.#before, inventory(this.folder), isUntouched))
      this.#fail(`${when} has lost or changed ${path}`);
  }

  /** Damage that matters is detected, and the error names the file. */
  #checkSaid(sights: readonly Sight[]): void {
    const { harms } = this.outcome;
    const said = sights.flatMap((sight) => sight.said);
    const isHarmless = harms.every(({ detail }) => detail === ELSEWHERE);
    const lost = [...this.#losses.mayLose.values()].reduce((sum, { size }) => sum + size, 0);
    if (lost > 0 && said.length === 0 && !isHarmless) this.#fail(`${lost} records are damaged, and nobody says so`);
    if (said.length === 0 || harms.length > 1) return;
    const names = [harms[0].path, harms[0].other ?? harms[0].path].map((path) =>
      path.startsWith('catalogue.') ? 'catalogue.' : basename(path),
    );
    if (!said.some(({ message }) => names.some((name) => message.includes(name))))
      this.#fail(`no error names ${harms[0].path}`);
  }

  // — repair —

  async #repair(folder: string): Promise<void> {
    const isInPlace = this.#dice.happens(IN_PLACE);
    this.onStep(isInPlace ? 'repair in place' : 'repair');
    const before = inventory(folder);
    const { isAllAdmitted, isLockHit } = this.#losses;
    let report: RepairReport;
    try {
      report = await repairGallery({
        folder,
        key: this.#key,
        threads: 1,
        versions: this.#memory(folder),
        ...(isInPlace ? {} : { into: join(this.#room, 'repaired') }),
      });
    } catch (error) {
      const isOurs = error instanceof HersError;
      const isFormatHit = this.outcome.harms.some(({ path }) => path === 'format');
      const isNewer = isOurs && error.code === 'UNSUPPORTED_VERSION' && isFormatHit;
      if (isOurs && (isAllAdmitted || isNewer || (isLockHit && isInPlace))) this.outcome.mended = 'refused, admitted';
      else
        this.#fail(
          `repair${isInPlace ? ' in place' : ''}: ${isOurs ? `${error.code} ${error.message}` : briefly(error)}`,
        );
      return;
    }
    this.onStep('look at what is repaired');
    // In place: proofs of the catalogue are made again first, if they are all that is missing.
    const isUntouched = isInPlace ? this.outcome.met === 'refused' : this.#isUntouched;
    const kept = report.backup ?? folder;
    for (const path of missing(before, inventory(kept), isUntouched))
      this.#fail(`repairing has lost or changed ${path}`);
    await this.#checkRepaired(report, folder);
  }

  async #checkRepaired(report: RepairReport, folder: string): Promise<void> {
    const access = { ...this.#access('write', folder), folder: report.folder };
    let listed: Map<string, Set<string>>;
    try {
      listed = await listAll(access);
    } catch (error) {
      if (this.#losses.isAllAdmitted && !report.complete) this.outcome.mended = 'with losses';
      else this.#fail(`the repaired folder does not open: ${briefly(error)}`);
      return;
    }
    let lost = 0;
    const left: Truths = new Map();
    for (const [name, truth] of this.#truths) {
      const gone = truth.certain().filter((person) => !listed.get(name)?.has(idOf(person)));
      lost += gone.length;
      this.#checkLost(report, name, gone);
      if (listed.has(name)) left.set(name, without(truth, gone));
    }
    this.outcome.lost = lost;
    this.outcome.mended =
      report.outcome === 'whole' || report.outcome === 'mended' ? report.outcome : lost > 0 ? 'with losses' : 'fully';
    const sight = await look(access, left, this.#dice);
    this.#take(sight, 'repaired');
    for (const { message } of sight.said) this.#fail(`the repaired folder is not in order: ${message}`);
  }

  #checkLost(report: RepairReport, name: string, gone: readonly number[]): void {
    if (gone.length === 0) return;
    const { isAllAdmitted, mayLose } = this.#losses;
    const wrongly = gone.filter((person) => !isAllAdmitted && !mayLose.get(name)!.has(idOf(person)));
    if (wrongly.length > 0)
      this.#fail(
        `repair has lost ${wrongly.length} records of ${name} that were not damaged, such as ${idOf(wrongly[0])}`,
      );
    const told = report.collections.find((each) => each.name === name)?.lost.count ?? 0;
    if (report.complete || (told < gone.length && !isAllAdmitted))
      this.#fail(`repair says that ${told} records of ${name} are lost, and ${gone.length} are`);
  }
}

function without(truth: Truth, gone: readonly number[]): Truth {
  const left = truth.copy();
  for (const person of gone) left.set(person, [undefined]);
  return left;
}

function metBy(sight: Sight): Outcome['met'] {
  if (!sight.isOpen) return 'refused';
  if (sight.isReadOnly) return 'read only';
  if (sight.has('trouble', 'use')) return 'at use';
  return sight.has('scrub') ? 'by scrub' : 'harmless';
}

/** What is written to a damaged gallery: a new record, a replacement, and a deletion. */
async function alter(
  collection: Collection,
  truth: Truth,
  dice: Dice,
  onError: (error: unknown) => void,
): Promise<void> {
  const certain = truth.certain();
  const attempt = async (who: readonly number[], revision: number | undefined) => {
    const before = who.map((person) => truth.get(person));
    who.forEach((person, i) => {
      truth.set(person, [...before[i], revision]);
    });
    try {
      if (revision === undefined) await collection.delete(who.map(idOf));
      else await collection.upsert(who.map((person) => plainOf(person, revision)));
      for (const person of who) truth.set(person, [revision]);
    } catch (error) {
      onError(error);
    }
  };
  await attempt(people(9000, 3), 0);
  if (certain.length < 2) return;
  await attempt([dice.of(certain)], 7);
  await attempt([dice.of(certain)], undefined);
}
