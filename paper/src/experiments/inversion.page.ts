// The page about score inversion and linking.

import { saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { decimals, grouped, plusMinus } from '../lab/quantities.ts';
import type { InversionParameters } from './inversion.ts';
import { inversionPlot } from './inversion-plot.ts';

type InversionData = Data<InversionParameters>;

const PROFILES = ['exact', 'compact'] as const;
type Profile = (typeof PROFILES)[number];

export async function render(data: InversionData): Promise<Rendered> {
  const markdown = page(
    data,
    'Score inversion, and linking of ciphertexts',
    'What comes back of a probe, against the number of scores that leaked and against the number of probes that are known',
    [
      ...introduction(data),
      '## Probes are known',
      ...knownProbes(data),
      '## Neither templates nor probes are known',
      ...nothingKnown(data),
      '## The templates are known',
      ...knownTemplates(data),
      '## What follows for a deployment',
      deployment(data),
      '## Linking',
      ...linking(data),
    ],
  );
  return { markdown, svg: await inversionPlot(data) };
}

/** A mean cosine and its interval. */
function cosine(figures: Figures, name: string): string {
  return plusMinus(figures.value(name), figures.value(`${name}-interval`), 3);
}

const identified = (figures: Figures, name: string) => figures.value(`${name}-identified`).toFixed(3);

/** Cosine and people found, for both profiles. */
const cells = (figures: Figures, leak: string, known: number) =>
  PROFILES.flatMap((profile) => {
    const name = `${leak}-${profile}-${known}`;
    return [cosine(figures, name), identified(figures, name)];
  });

const HEAD = PROFILES.flatMap((profile) => [`cosine, ${profile}`, 'person found']);

/** One leak, one profile, one number of scores, by an attacker that has rehearsed. */
function gainsOf(data: InversionData): string[] {
  return ['encrypted-population', 'scores-population'].flatMap((leak) =>
    PROFILES.flatMap((profile) => data.parameters.rehearsed.map((known) => `${leak}-${profile}-${known}`)),
  );
}

const isSeen = (figures: Figures, name: string) =>
  figures.value(`${name}-gain`) > figures.value(`${name}-gain-interval`);

function widestGain(data: InversionData): string {
  const figures = new Figures(data);
  return gainsOf(data).reduce((a, b) => (figures.value(`${b}-gain`) > figures.value(`${a}-gain`) ? b : a));
}

function introduction(data: InversionData): string[] {
  const { data: source, split, probes, galleries, templates } = data.parameters;
  const figures = new Figures(data);
  return [
    `An attacker learns the scores of an unknown probe and tries to compute the probe. How well that goes depends on what else it has: the templates, the ciphertext, nothing, or probes that it knows. The figures are the mean cosine of the result and the probe; 1 is the probe itself. **${cosine(figures, 'guess-mean')} is what an attacker reaches that sees nothing**, knows what faces look like and answers with their mean. (A stranger's face reaches ${figures.value('guess-stranger').toFixed(3)}.) An attack below that guess has failed and proves nothing. So where nothing should come back, the attackers know the population too, and are compared with the guess on the same probes.`,
    `Scores are the decrypted ones of real encrypted searches: ${probes} probes, spread over ${galleries} galleries of ${grouped(templates)} templates with a key each. ± is 95 %, from how much these differ. "Person found" is how often the reconstruction, used as a probe, finds another picture of the same person first. A picture drawn at random is of the same person for ${figures.value('guess-identified').toFixed(3)} of the probes, because some people have many.`,
    `${source}. ${saidSplit(split)} What an attacker knows about the population, it knows from the half that is fitted on.`,
  ];
}

function knownProbes(data: InversionData): string[] {
  const { dimension, templates, knownProbes: counts } = data.parameters;
  const figures = new Figures(data);
  return [
    table(
      ['known probes', ...HEAD],
      counts.map((known) => [grouped(known), ...cells(figures, 'known', known)]),
    ),
    `An attacker that knows k probes, its own queries say, needs no template and no ciphertext. It sees their scores against the ${grouped(templates)} unknown templates, and those of the unknown probe against the same. Scores are linear in the probe: the combination of known rows of scores that comes closest to the unknown row (least squares) is the combination of known probes that comes closest to the probe. As many known probes as there are dimensions, ${grouped(dimension)}, give the probe.`,
    'This attack works against an encrypted gallery. Encryption does not stop it; keeping scores from people does. (The known probes are of other people, and are taken as they are compared: rounded as the profile rounds, which anybody can do.)',
  ];
}

function knownTemplates(data: InversionData): string[] {
  const { dimension, templates, rehearsed } = data.parameters;
  const figures = new Figures(data);
  const sizes = rehearsed.filter((size) => size === templates || (size >= dimension / 4 && size <= 2 * dimension));
  const methods = [
    ['plain', 'least squares'],
    ['plain-population', 'with the population'],
  ] as const;
  return [
    table(
      ['method', 'scores', ...HEAD],
      methods.flatMap(([leak, method]) => sizes.map((size) => [method, grouped(size), ...cells(figures, leak, size)])),
    ),
    `This is the attack of the paper's security analysis: scores r of m templates P in the clear, q = (PᵀP + λI)⁻¹Pᵀr. An attacker that also knows the population takes q for normal, with the mean and the covariance of the other half. ${grouped(dimension)} scores of known templates are as good as the probe. With fewer, knowing the population helps.`,
  ];
}

const BLIND = [
  ['encrypted', 'the ciphertext', 'least squares'],
  ['encrypted-population', 'the ciphertext', 'learned'],
  ['scores', 'nothing', 'least squares'],
  ['scores-population', 'nothing', 'learned'],
] as const;

function nothingKnown(data: InversionData): string[] {
  const { dimension, templates, rehearsed, rehearsals } = data.parameters;
  const figures = new Figures(data);
  const sizes = rehearsed.filter((size) => size === templates || size === dimension);
  const rows = BLIND.flatMap(([leak, has, method]) =>
    PROFILES.flatMap((profile) =>
      sizes.map((size) => {
        const name = `${leak}-${profile}-${size}`;
        return [
          ...[has, method, profile, grouped(size)],
          cosine(figures, name),
          cosine(figures, `${name}-gain`),
          identified(figures, name),
        ];
      }),
    ),
  );
  return [
    table(
      ['beside scores it holds', 'method', 'profile', 'scores', 'cosine', 'above the guess', 'person found'],
      rows,
      [0, 1, 2],
    ),
    `The attacker is either as the server would be, if it learned scores: it sees the ciphertext, and knows which score belongs to which slot. Or it sees scores alone. "Least squares" takes the coefficients of the ciphertext, or vectors of other people, for the templates. "Learned" has rehearsed: it has encrypted ${rehearsals.galleries} galleries of its own, under keys of its own, searched each with ${rehearsals.probes} faces that it knows, and learned by ridge regression to tell the face from what it saw (order statistics and moments of the scores, and for the ciphertext how scores go with the coefficients of each coordinate). How far it trusts what it sees was chosen on rehearsals it had not learned from. It may choose the guess itself, which is a gain of 0.000 ± 0.000, or to look at the scores and not at the ciphertext.`,
    verdict(data),
    'These are attacks on one probe at a time. Nothing is claimed about a whole table of scores, of many unknown probes against many unknown templates. It determines all vectors up to one linear map, and whatever fixes that map opens all of them.',
  ];
}

function verdict(data: InversionData): string {
  const { templates } = data.parameters;
  const figures = new Figures(data);
  const gains = gainsOf(data);
  const gain = (name: string) => cosine(figures, `${name}-gain`);
  const seen = gains.filter((name) => name.endsWith(`-${templates}`) && isSeen(figures, name));
  const said = seen.map((name) => {
    const [, leak, profile] = /^(encrypted|scores)-population-(exact|compact)-/.exec(name)!;
    return `by ${gain(name)} (${leak === 'encrypted' ? 'with the ciphertext' : 'scores alone'}, ${profile})`;
  });
  const result =
    seen.length === 0 ? 'no better than the guess, within the interval' : `better than the guess ${said.join(', ')}`;
  const above = gains.filter((name) => isSeen(figures, name)).length;
  return `With all ${grouped(templates)} scores, the attackers that have rehearsed are ${result}. The largest gain with any number of scores, of ${gains.length} that were measured, is ${gain(widestGain(data))}. ${above} of them are above their own interval, which is not widened for so many looks. (There can be a gain at all because the mean of all scores says how much the probe has of the population's mean.)`;
}

function deployment(data: InversionData): string {
  const { dimension } = data.parameters;
  const most = new Figures(data).value(`${widestGain(data)}-gain`).toFixed(3);
  return [
    `- **An attacker that knows neither templates nor probes gains nothing over a guess from encrypted templates and scores**, as far as these attackers can tell: ${most} in cosine is the most that any of them gained. That much of the paper's claim holds.`,
    `- **An attacker that sees scores of probes it knows needs about d of them** (${grouped(dimension)} here; fewer for a resemblance, or [after compression](inversion-compressed.md)) to read any other probe off its scores. The roles are equal, so it can also read any template off its scores against d known probes. The paper claims that scores in the clear do not help as long as the gallery is encrypted; that is not true here. Scores are secrets, like vectors.`,
    '- **The server sees no score** in the clear, so it can carry out none of this. Keep it so: send nothing decrypted back to it, nor into logs and dashboards that it can read.',
    '- **A user who sees whole rows of scores of their own queries** collects known rows just by searching. After d of them every template is theirs, and so is the probe of anybody else whose row they get to see: in a shared log, a cache, an audit trail. Give users the best few and not the rows, keep no rows, and count queries. (Whoever holds the key can decrypt the gallery anyway; this is about users of a program that holds it.)',
    '- A `compact` score carries noise that depends on the key. Whoever sees ciphertexts *and* scores of known vectors can attack the key itself ([SECURITY.md](../../SECURITY.md)). Nothing on this page is a permission to publish scores.',
  ].join('\n');
}

function linking(data: InversionData): string[] {
  const { pairs, linking: blocks } = data.parameters;
  const figures = new Figures(data);
  const rows = [
    ['', 'two keys'],
    ['-one-key', 'the same key twice'],
    ...blocks.reused.map((of) => [
      of === 1 ? '-control' : `-control-${of}`,
      `control: one mask twice, in ${of === 1 ? 'all coefficients' : `1 of ${grouped(of)}`}`,
    ]),
    ['-control-single', 'control: one mask twice, in a single coefficient'],
    ...blocks.copied.map((of) => [`-copied-${of}`, `control: a noisy copy of 1 of ${grouped(of)}`]),
  ];
  return [
    table(
      ['pairs of ciphertexts', ...PROFILES.map((profile) => `advantage, ${profile}`)],
      rows.map(([name, shown]) => [
        shown,
        ...PROFILES.map((profile) => decimals(figures.value(`linking-${profile}${name}`), 3)),
      ]),
    ),
    `A judge is shown two encrypted blocks of ${blocks.dimension} coordinates of ${grouped(blocks.exact)} (exact) or ${grouped(blocks.compact)} (compact) templates, half of the time of the same templates, and has to say which it is. For each row it learns from ${grouped(pairs)} such pairs (correlation of the coefficients, their distances around the circle, how many of them are closer than chance at ${blocks.scales ?? 13} scales, signs, squares) and is measured on ${grouped(pairs)} others. Its advantage is P(says same | same) − P(says same | different). Of judges that know nothing, 95 % are within ± ${figures.value('linking-chance').toFixed(3)}.`,
    'The controls say what the judge would have seen. "One mask twice" is the bug that the scheme must never have, with fresh noise of the scheme\'s size in both ciphertexts, in all coefficients or in a few; the others have masks of their own. (Under `exact`, that noise is mostly below the resolution of the double-precision numbers that the judge reads.) "A noisy copy" is a link that no bug of this scheme makes: in ciphertexts of the same templates, some coefficients are equal up to normal noise of an eighth of the modulus, which only statistics over many of them can see.',
    `${faintestSeen(data)} A fainter link could have escaped it. That nobody can link two ciphertexts rests on the proof ([packages/scheme](../../packages/scheme/README.md), §4), not on this table, which would have shown a bug in the program.`,
  ];
}

/** The faintest of the controls that the judge still sees. */
function faintestSeen(data: InversionData): string {
  const { reused, copied } = data.parameters.linking;
  const figures = new Figures(data);
  const chance = figures.value('linking-chance');
  const advantage = (profile: Profile, name: string) => figures.value(`linking-${profile}-${name}`);
  const faintest = (profile: Profile, name: string, of: readonly number[]) => {
    const seen = of.filter((one) => advantage(profile, one === 1 ? name : `${name}-${one}`) > chance);
    return seen.length === 0 ? 'none' : `1 of ${grouped(Math.max(...seen))}`;
  };
  const masks = PROFILES.map((profile) => {
    const single = advantage(profile, 'control-single') > chance;
    return `${single ? 'a single coefficient' : faintest(profile, 'control', reused)} (${profile})`;
  });
  const copies = PROFILES.map((profile) => `${faintest(profile, 'copied', copied)} (${profile})`);
  return `The judge sees a mask that is used twice in ${masks.join(' and ')}, and noisy copies in ${copies.join(' and ')}.`;
}
