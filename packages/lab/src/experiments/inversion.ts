// The paper's security analysis, carried out: what comes back of a probe from its scores, by what else the attacker has; and whether ciphertexts can be linked.

import type { Profile } from '@hers/scheme';
import { plan } from '@hers/scheme';
import { type Dataset, type Split, splitByLabel } from '../datasets.ts';
import { machine, progress } from '../report.ts';
import { ciphertextPairs, LINKED_DIMENSION } from '../security/ciphertext-pairs.ts';
import {
  type Attack,
  attackAll,
  type Campaign,
  campaign,
  type Guesses,
  guesses,
  type Leak,
} from '../security/score-attacks.ts';
import { type Linking, linkingAdvantage, marginOf, type Pair } from '../security/unlinkability.ts';
import { againWith, DATA_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import type { Experiment, Figure, Outcome, Values } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { whole } from './quantities.ts';

const PROFILES: readonly Profile[] = ['exact', 'compact'];

/** One of so many coefficients has a mask that is used twice; the last of the row is a single coefficient. */
const REUSED = [1, 2, 8, 64, 512, 4096];
/** One of so many coefficients is copied with a lot of noise. */
const COPIED = [8, 32, 64, 128, 512];

interface Linked extends Linking {
  readonly profile: Profile;
  /** As in the names of results. */
  readonly name: string;
  readonly shown: string;
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
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const wanted = {
      probes: count(values, 'probes', small ? 7 : 200, 1),
      pairs: count(values, 'pairs', small ? 8 : 400, 2),
    };
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const from = campaign(held, training, {
      probes: wanted.probes,
      templates: small ? 64 : 16 * data.dimension,
      examples: small ? 6 : 100,
      rehearsals: small ? 4 : 20,
    });
    const guess = guesses(from);
    const attacks = PROFILES.flatMap((profile) => attackAll(from, profile, progress));
    const links = PROFILES.flatMap((profile) => linking(from, profile, wanted.pairs));
    const probes = from.groups.reduce((sum, group) => sum + group.length, 0);
    const report = {
      bench: 'inversion',
      parameters: {
        data: data.source,
        split,
        dimension: data.dimension,
        probes,
        galleries: from.groups.length,
        rehearsals: `${from.rehearsals.length} galleries, ${from.rehearsals[0].probes.length} probes each`,
        pairs: wanted.pairs,
        ...versions(),
        small,
      },
      machine: machine(),
      results: resultsOf(attacks, guess, links),
    };
    const markdown = page(
      'Score inversion, and linking of ciphertexts',
      'inversion',
      [...inversionText(data, split, from, attacks, guess), ...linkingText(links, wanted.pairs)],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(attacks, guess, data.dimension) };
  },
};

function count(values: Values, name: string, otherwise: number, step: 1 | 2): number {
  if (values[name] === undefined) return otherwise;
  const number = Number(values[name]);
  if (!(Number.isSafeInteger(number) && number >= 2 * step && number % step === 0))
    throw new RangeError(
      step === 1 ? `--${name} is a whole number, two or more` : `--${name} is an even whole number, four or more`,
    );
  return number;
}

function resultsOf(attacks: readonly Attack[], guess: Guesses, links: readonly Linked[]): Figure[] {
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
  ];
}

/** All that the judge is asked, in the order of the table. */
function linking({ held }: Campaign, profile: Profile, pairs: number): Linked[] {
  const made = ciphertextPairs(held, profile);
  const ask = (name: string, shown: string, pair: Pair): Linked => ({
    profile,
    name,
    shown,
    ...linkingAdvantage(pair, pairs, (done, total) => {
      if (done % 400 === 0) progress(`linking, ${profile}, ${shown}: ${done} of ${total} pairs`);
    }),
  });
  return [
    ask('', 'two keys', made.twoKeys),
    ask('-one-key', 'the same key twice', made.oneKey),
    ...REUSED.map((of) =>
      ask(
        of === 1 ? '-control' : `-control-${of}`,
        `control: one mask twice, in ${of === 1 ? 'all coefficients' : `1 of ${whole(of)}`}`,
        made.reusedMask(of),
      ),
    ),
    ask('-control-single', 'control: one mask twice, in a single coefficient', made.reusedMask(made.coefficients)),
    ...COPIED.map((of) => ask(`-copied-${of}`, `control: a noisy copy of 1 of ${whole(of)}`, made.faintCopy(of))),
  ];
}

const plusMinus = (value: number, error: number) => `${value.toFixed(3)} ± ${(1.96 * error).toFixed(3)}`;

/** A value for each profile, in one cell each. */
const both = (show: (profile: Profile) => string) => PROFILES.map(show);

function inversionText(
  { source, dimension }: Dataset,
  split: Split,
  from: Campaign,
  attacks: readonly Attack[],
  guess: Guesses,
): string[] {
  const of = (leak: Leak, known: number, profile: Profile) =>
    attacks.find((each) => each.leak === leak && each.known === known && each.profile === profile)!;
  const probes = from.groups.reduce((sum, group) => sum + group.length, 0);
  const most = Math.max(...from.sizes);
  const sizes = from.rehearsed.filter((size) => size === most || (size >= dimension / 4 && size <= 2 * dimension));
  const cells = (leak: Leak, known: number) =>
    PROFILES.map((profile) => of(leak, known, profile)).flatMap((each) => [
      plusMinus(each.cosine, each.error),
      each.identified.toFixed(3),
    ]);
  const head = PROFILES.flatMap((profile) => [`cosine, ${profile}`, 'person found']);
  const gains = attacks.filter(({ leak }) => leak === 'encrypted-population' || leak === 'scores-population');
  const atMost = gains.filter(({ known }) => known === most);
  const widest = gains.reduce((a, b) => (b.gain > a.gain ? b : a));
  const seen = atMost.filter(({ gain, gainError }) => gain > 1.96 * gainError);
  const verdict =
    seen.length === 0
      ? 'no better than the guess, within the interval'
      : `better than the guess ${seen.map(({ leak, profile, gain, gainError }) => `by ${plusMinus(gain, gainError)} (${leak === 'encrypted-population' ? 'with the ciphertext' : 'scores alone'}, ${profile})`).join(', ')}`;
  const knownAt = (known: number) => both((profile) => of('known', known, profile).cosine.toFixed(3)).join(' and ');
  const half = Math.round(dimension / 2);
  const quarter = Math.round(dimension / 4);
  const eighth = Math.round(dimension / 8);
  return [
    '![What comes back of a probe, against the number of scores that leaked and against the number of probes that are known](inversion.svg)',
    `Somebody learns the scores of an unknown probe and tries to compute the probe. How well that goes depends on what else they have: the templates, the ciphertext, nothing, or probes that they know. The figures are the mean cosine of the result and the probe: 1 is the probe itself, and **${plusMinus(guess.mean, guess.meanError)} is what somebody reaches who sees nothing**, knows what faces look like and answers with their mean (a stranger's face reaches ${guess.stranger.toFixed(3)}). An attack below that guess has failed and proves nothing; so where nothing should come back, the attackers know the population too and are compared with the guess on the same probes.`,
    `Scores are the decrypted ones of real encrypted searches. ${saidSplit(split)} What an attacker knows about the population, it knows from the half that is fitted on. Data: ${source}; ${probes} probes, spread over ${from.groups.length} galleries of ${whole(most)} templates with a key each; ± is 95 %, from how much these differ. "Person found" is how often the reconstruction, used as a probe, finds another picture of the same person first; a picture drawn at random is one of the same person for ${guess.person.toFixed(3)} of the probes, for some people have many.`,
    '## The templates are known',
    `The attack of the paper's security analysis: scores r of m templates P in the clear, q = (PᵀP + λI)⁻¹Pᵀr. An attacker that knows the population, too, takes q for normal with the mean and the covariance of the other half.`,
    table(
      ['method', 'm', ...head],
      (
        [
          ['plain', 'least squares'],
          ['plain-population', 'with the population'],
        ] as const
      ).flatMap(([leak, method]) => sizes.map((size) => [method, whole(size), ...cells(leak, size)])),
    ),
    `${whole(dimension)} scores of known templates are as good as the probe. With fewer, the population makes a difference: ${[quarter, half].map((size) => `with ${size} scores ${of('plain-population', size, 'compact').cosine.toFixed(3)} against ${of('plain', size, 'compact').cosine.toFixed(3)}`).join(', ')} (compact).`,
    '## Neither templates nor probes are known',
    `The attacker either is as the server would be, if it learned scores: it sees the ciphertext, and knows which score belongs to which slot; or it sees scores alone. "Least squares" takes the coefficients of the ciphertext, or vectors of other people, for the templates. "Learned" has rehearsed: it has encrypted ${from.rehearsals.length} galleries of its own, under keys of its own, searched each with ${from.rehearsals[0].probes.length} faces that it knows, and learned by ridge regression to tell the face from what it saw (order statistics and moments of the scores, and for the ciphertext how scores go with the coefficients of each coordinate). How far it trusts what it sees was chosen on rehearsals it had not learned from; not at all, hence the guess, is one of the choices, and to look at the scores and not at the ciphertext another. A gain of 0.000 ± 0.000 is the guess itself.`,
    table(
      ['the attacker holds scores and …', 'method', 'profile', 'm', 'cosine', 'above the guess', 'person found'],
      (
        [
          ['encrypted', 'the ciphertext', 'least squares'],
          ['encrypted-population', 'the ciphertext', 'learned'],
          ['scores', 'nothing', 'least squares'],
          ['scores-population', 'nothing', 'learned'],
        ] as const
      ).flatMap(([leak, has, method]) =>
        PROFILES.flatMap((profile) =>
          sizes
            .filter((size) => size === most || size === dimension)
            .map((size) => of(leak, size, profile))
            .map((each) => [
              has,
              method,
              profile,
              whole(each.known),
              plusMinus(each.cosine, each.error),
              plusMinus(each.gain, each.gainError),
              each.identified.toFixed(3),
            ]),
        ),
      ),
      [0, 1, 2],
    ),
    `With all ${whole(most)} scores, the attackers that have rehearsed are ${verdict}. The largest gain at any m, of ${gains.length} that were measured, is ${plusMinus(widest.gain, widest.gainError)}; ${gains.filter(({ gain, gainError }) => gain > 1.96 * gainError).length} of them are above their own interval, which is not widened for so many looks. (The mean of all scores says how much the probe has of the population's mean, which is why there can be a gain at all.) These are attacks on one probe at a time. Nothing is claimed about a whole table of scores, of many unknown probes against many unknown templates: it determines all vectors up to one linear map, and whatever fixes that map opens all of them.`,
    '## Probes are known',
    `No template and no ciphertext is needed by somebody who knows k probes, their own queries say, and sees their scores against the ${whole(most)} unknown templates and those of the unknown probe against the same. Scores are linear in the probe: the combination of known rows of scores that comes closest to the unknown row (least squares) is the combination of known probes that comes closest to the probe. The known probes are of other people, and are taken as they are compared (\`exact\` rounds them to 1/250, as anybody can).`,
    table(
      ['k', ...head],
      from.knownProbes.map((known) => [whole(known), ...cells('known', known)]),
    ),
    `${[eighth, quarter, half].map((k) => `${k} known probes give ${knownAt(k)}`).join(', ')} (exact and compact), and ${whole(dimension)}, as many as there are dimensions, ${knownAt(dimension)}: the probe. This is the attack that works against an encrypted gallery, and encryption is not what stops it: keeping scores from people is.`,
    '## What follows for a deployment',
    [
      `- **Encrypted templates and the scores of a probe are worth no more than a guess to somebody who knows neither templates nor probes**, as far as these attackers can tell: ${widest.gain.toFixed(3)} in cosine is the most that any of them gained. That much of the paper's claim holds.`,
      `- **Whoever sees scores of probes they know needs about d of them** (${whole(dimension)} here; fewer for a resemblance) to read any other probe off its scores; and, the roles being equal, any template off its scores against d known probes. The paper's claim that scores in the clear do not help as long as the gallery is encrypted is not true of them. Scores are secrets, like vectors.`,
      '- **The server sees no score** in the clear, and so can carry out none of this. It has to stay so: nothing decrypted goes back to it, nor into logs and dashboards that it can read.',
      '- **A user who sees whole rows of scores of their own queries** collects known rows just by searching. After d of them every template is theirs, and so is the probe of anybody else whose row they get to see: in a shared log, a cache, an audit trail. Give users the best few and not the rows, keep no rows, and count queries. (Those who hold the key could decrypt the gallery anyway; this is about users of a program that holds it.)',
      '- A `compact` score carries noise that depends on the key: whoever sees ciphertexts *and* scores of known vectors can attack the key itself ([SECURITY.md](../../SECURITY.md)). Nothing on this page is a permission to publish scores.',
    ].join('\n'),
  ];
}

function linkingText(links: readonly Linked[], pairs: number): string[] {
  const shown = links.filter(({ profile }) => profile === PROFILES[0]);
  const margin = marginOf(pairs);
  const advantage = (name: string, profile: Profile) =>
    links.find((link) => link.name === name && link.profile === profile)!.advantage;
  /** The faintest of a row of controls that the judge still sees. */
  const faintest = (name: string, of: readonly number[], profile: Profile) => {
    const seen = of.filter((one) => advantage(one === 1 ? name : `${name}-${one}`, profile) > margin);
    return seen.length === 0 ? 'none' : `1 of ${whole(Math.max(...seen))}`;
  };
  const single = (profile: Profile) =>
    advantage('-control-single', profile) > margin ? 'a single coefficient' : faintest('-control', REUSED, profile);
  return [
    '## Linking',
    `A judge is shown two encrypted blocks of ${LINKED_DIMENSION} coordinates of ${both((profile) => `${whole(plan({ dimension: LINKED_DIMENSION, profile }).parameters.n)} (${profile})`).join(' or ')} templates, half of the time of the same templates, and has to say which it is. It learns from ${whole(pairs)} such pairs (correlation of the coefficients, their distances around the circle, how many of them are closer than chance at thirteen scales, signs, squares) and is measured on ${whole(pairs)} others; so in every row of the table. Its advantage is P(says same | same) − P(says same | different); of judges that know nothing, 95 % are within ± ${margin.toFixed(3)}.`,
    `The controls say what the judge would have seen. "One mask twice" is the mistake that the scheme must never make, with fresh noise of the scheme's size in both ciphertexts, in all coefficients or in a few, the others having masks of their own (under \`exact\`, that noise is mostly below the resolution of the double-precision numbers that the judge reads). "A noisy copy" is a link of a kind that no mistake of this scheme makes: in ciphertexts of the same templates, some coefficients are equal up to normal noise of an eighth of the modulus, which only statistics over many of them can see.`,
    table(
      ['pairs of ciphertexts', ...PROFILES.map((profile) => `advantage, ${profile}`)],
      shown.map(({ name, shown: what }) => [what, ...both((profile) => advantage(name, profile).toFixed(3))]),
    ),
    `So the judge sees a mask that is used twice in ${both((profile) => `${single(profile)} (${profile})`).join(' and ')}, and noisy copies in ${both((profile) => `${faintest('-copied', COPIED, profile)} (${profile})`).join(' and ')}; a fainter link than that could have escaped it. That two ciphertexts cannot be linked by anybody rests on the proof ([packages/scheme](../../packages/scheme/README.md), §4), not on this table, which would have shown a mistake in the program.`,
  ];
}

const LINES = {
  plain: 'the templates in the clear',
  'plain-population': 'the templates in the clear, and the population',
  known: 'scores of known probes',
  'encrypted-population': 'the templates encrypted, and the population',
  'scores-population': 'the population alone',
} as const;
const LINE_COLOURS = ['#D55E00', '#E69F00', '#CC79A7', '#0072B2', '#009E73'];

/** Two panels: what the number of leaked scores does, and what the number of known probes does. */
function plot(attacks: readonly Attack[], guess: Guesses, dimension: number): Promise<string> {
  const values = attacks
    .filter(({ profile, leak }) => profile === 'compact' && Object.hasOwn(LINES, leak))
    .map(({ leak, known, cosine }) => ({ leak: LINES[leak as keyof typeof LINES], known, cosine }));
  const panel = (title: string, xTitle: string, width: number, own: typeof values, first: boolean) => {
    const sizes = [...new Set(own.map(({ known }) => known))];
    const y = {
      field: 'cosine',
      type: 'quantitative' as const,
      scale: { domain: [-0.1, 1], nice: false },
      title: first ? 'cosine of reconstruction and probe' : null,
    };
    return {
      title: { text: title, fontSize: 12, fontWeight: 'normal' as const, anchor: 'middle' as const, offset: 6 },
      width,
      height: 300,
      layer: [
        {
          data: { values: [{ cosine: guess.mean }] },
          mark: { type: 'rule' as const, strokeDash: [5, 4], color: '#666666' },
          encoding: { y },
        },
        {
          data: { values: own },
          mark: { type: 'line' as const, strokeWidth: 2.5, point: { size: 50, filled: true } },
          encoding: {
            x: {
              field: 'known',
              type: 'quantitative' as const,
              scale: {
                type: 'log' as const,
                base: 2,
                domain: [Math.min(...sizes), Math.max(...sizes)],
                nice: false,
              },
              title: xTitle,
              axis: { values: sizes.filter((size) => Number.isInteger(Math.log2(size / dimension))) },
            },
            y,
            color: {
              field: 'leak',
              type: 'nominal' as const,
              title: 'beside the scores of the probe, the attacker holds …',
              scale: { domain: Object.values(LINES), range: LINE_COLOURS },
              legend: { orient: 'bottom' as const, columns: 2, titleLimit: 0 },
            },
          },
        },
      ],
    };
  };
  const isKnown = ({ leak }: { leak: string }) => leak === LINES.known;
  return render({
    $schema: SCHEMA,
    title: {
      text: 'What comes back of a probe from its scores',
      subtitle: `${dimension} dimensions, profile compact; dashed: a guess that knows the population and sees nothing`,
    },
    hconcat: [
      panel(
        'no probe is known',
        'scores that leaked, each of another template',
        380,
        values.filter((value) => !isKnown(value)),
        true,
      ),
      panel('probes are known', 'known probes', 230, values.filter(isKnown), false),
    ],
    spacing: 24,
  });
}
