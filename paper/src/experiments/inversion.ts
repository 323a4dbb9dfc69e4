// The paper's security analysis, carried out: what comes back of a probe from its scores, by what
// else the attacker has; and whether ciphertexts can be linked.

import { type Profile, plan } from '@hers/scheme';
import { againWith, DATA_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { splitByLabel } from '../data/datasets.ts';
import { type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import type { Values } from '../lab/runner.ts';
import { ciphertextPairs, LINKED_DIMENSION } from '../security/ciphertext-pairs.ts';
import { type Attack, attackAll, type Campaign, campaign, type Guesses, guesses } from '../security/score-attacks.ts';
import { type Linking, linkingAdvantage, type Pair, SCALES } from '../security/unlinkability.ts';

const PROFILES: readonly Profile[] = ['exact', 'compact'];

/**
 * One of so many coefficients has a mask that is used twice; the last of the row is a single
 * coefficient.
 */
const REUSED = [1, 2, 8, 64, 512, 4096];
/** One of so many coefficients is copied with a lot of noise. */
const COPIED = [8, 32, 64, 128, 512];

export interface InversionParameters {
  readonly data: string;
  readonly split: string;
  readonly dimension: number;
  readonly probes: number;
  /** With a key each. */
  readonly galleries: number;
  /** Templates of a gallery. */
  readonly templates: number;
  /** Scores that leak, in attacks that are learned. */
  readonly rehearsed: readonly number[];
  /** Scores that leak, in the others. */
  readonly leaked: readonly number[];
  readonly knownProbes: readonly number[];
  readonly rehearsals: { readonly galleries: number; readonly probes: number };
  readonly pairs: number;
  readonly linking: {
    readonly dimension: number;
    /** Templates of a block. */
    readonly exact: number;
    readonly compact: number;
    readonly reused: readonly number[];
    readonly copied: readonly number[];
    /** At which the judge counts coefficients that are close; there were 13 before. */
    readonly scales?: number;
  };
}

interface Linked extends Linking {
  readonly profile: Profile;
  /** As in the names of results. */
  readonly name: string;
}

export const inversion: Experiment = {
  name: 'inversion',
  summary: 'what comes back of a probe from its scores; whether ciphertexts can be linked',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    probes: { type: 'string', help: 'probes to attack (200), two or more' },
    pairs: { type: 'string', help: 'pairs of ciphertexts to judge (400), an even number, four or more' },
  },
  async measure(values): Promise<Data<InversionParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const probes = count(values, 'probes', small ? 7 : 200, 1);
    const pairs = count(values, 'pairs', small ? 8 : 400, 2);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const from = campaign(held, training, {
      probes,
      templates: small ? 64 : 16 * data.dimension,
      examples: small ? 6 : 100,
      rehearsals: small ? 4 : 20,
    });
    const guess = guesses(from);
    const attacks = PROFILES.flatMap((profile) => attackAll(from, profile, progress));
    const links = PROFILES.flatMap((profile) => linking(from, profile, pairs));
    const parameters = { data: data.source, split, dimension: data.dimension, ...sizesOf(from), pairs };
    const results = figures(attacks, guess, links);
    return record('inversion', values, { parameters, results }, againWith(values));
  },
};

function sizesOf({ groups, sizes, rehearsed, knownProbes, rehearsals }: Campaign) {
  const slots = (profile: Profile) => plan({ dimension: LINKED_DIMENSION, profile }).parameters.n;
  return {
    probes: groups.reduce((sum, group) => sum + group.length, 0),
    galleries: groups.length,
    templates: Math.max(...sizes),
    leaked: sizes,
    rehearsed,
    knownProbes,
    rehearsals: { galleries: rehearsals.length, probes: rehearsals[0].probes.length },
    linking: {
      dimension: LINKED_DIMENSION,
      exact: slots('exact'),
      compact: slots('compact'),
      reused: REUSED,
      copied: COPIED,
      scales: SCALES,
    },
  };
}

function count(values: Values, name: string, otherwise: number, step: 1 | 2): number {
  if (values[name] === undefined) return otherwise;
  const number = Number(values[name]);
  if (!(Number.isSafeInteger(number) && number >= 2 * step && number % step === 0))
    throw new RangeError(
      step === 1 ? `--${name} is a whole number, two or more` : `--${name} is an even whole number, four or more`,
    );
  return number;
}

function figures(attacks: readonly Attack[], guess: Guesses, links: readonly Linked[]): Figure[] {
  const measured = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });
  return [
    ...attacks.flatMap((each) => {
      const name = `${each.leak}-${each.profile}-${each.known}`;
      return [
        measured(name, each.cosine, 'cosine'),
        measured(`${name}-interval`, 1.96 * each.error, 'cosine'),
        measured(`${name}-gain`, each.gain, 'cosine'),
        measured(`${name}-gain-interval`, 1.96 * each.gainError, 'cosine'),
        measured(`${name}-identified`, each.identified, 'of probes'),
      ];
    }),
    measured('guess-mean', guess.mean, 'cosine'),
    measured('guess-mean-interval', 1.96 * guess.meanError, 'cosine'),
    measured('guess-stranger', guess.stranger, 'cosine'),
    { name: 'guess-identified', value: guess.person, unit: 'of probes', source: 'computed' },
    ...links.map(({ profile, name, advantage }) => measured(`linking-${profile}${name}`, advantage, 'advantage')),
    { name: 'linking-chance', value: links[0].margin, unit: 'advantage', source: 'computed' },
  ];
}

/** All that the judge is asked, in the order of the table. */
function linking({ held }: Campaign, profile: Profile, pairs: number): Linked[] {
  const made = ciphertextPairs(held, profile);
  const ask = (name: string, pair: Pair): Linked => ({
    profile,
    name,
    ...linkingAdvantage(pair, pairs, (done, total) => {
      if (done % 400 === 0) progress(`linking, ${profile}${name}: ${done} of ${total} pairs`);
    }),
  });
  return [
    ask('', made.twoKeys),
    ask('-one-key', made.oneKey),
    ...REUSED.map((of) => ask(of === 1 ? '-control' : `-control-${of}`, made.reusedMask(of))),
    ask('-control-single', made.reusedMask(made.coefficients)),
    ...COPIED.map((of) => ask(`-copied-${of}`, made.faintCopy(of))),
  ];
}
