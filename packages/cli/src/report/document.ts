// What a report says, from what was measured.

import type { AtRate, Evaluation, Interval } from '@hers/vectors/accuracy';
import type { Machine } from '@hers/vectors/machine';
import { count, duration, size } from '../output.ts';
import type { EncryptedScores } from './gallery.ts';
import { type Line, linePlot, type Part } from './page.ts';
import type { Crossed, Mean, Protection } from './protection.ts';

export interface Way {
  /** In the clear, compressed, encrypted. */
  readonly name: string;
  readonly evaluation: Evaluation;
}

export interface Measured {
  readonly file: string;
  readonly command: string;
  /** SHA-256 of the files that were read. */
  readonly digests: readonly { readonly file: string; readonly sha256: string }[];
  readonly date: string;
  readonly version: string;
  /** Of the sources, where it is known. */
  readonly commit?: string | undefined;
  readonly machine: Machine;
  readonly seed: number;
  readonly draws: number;
  readonly vectors: {
    readonly of: number;
    readonly taken: number;
    readonly people: number;
    readonly dimension: number;
  };
  readonly compressor?: { readonly file: string; readonly method: string; readonly dimension: number } | undefined;
  readonly ways: readonly Way[];
  readonly encrypted: Omit<EncryptedScores, 'scores'> & {
    /** In the clear, in the same process. */
    readonly plainSeconds: number;
    /** Of scores, against those in the clear: root mean square and mean. */
    readonly error: { readonly rms: number; readonly bias: number };
  };
  readonly protection: Protection;
}

export function documentOf(measured: Measured): Part[] {
  return [
    { heading: 'Biometric performance and protection', level: 1 },
    { text: introduction(measured) },
    ...identification(measured),
    ...openSet(measured),
    ...verification(measured),
    ...cost(measured),
    ...protectionParts(measured),
    ...repetition(measured),
  ];
}

function introduction({ file, vectors, compressor, ways }: Measured): string {
  const taken = vectors.taken < vectors.of ? `${count(vectors.taken)} of ${count(vectors.of)}` : count(vectors.of);
  const through = compressor
    ? ` Compressed ones are those of ${compressor.file} (${compressor.method}), of ${compressor.dimension} dimensions.`
    : '';
  return `Of ${file}: ${taken} vectors of ${count(vectors.people)} people, of ${vectors.dimension} dimensions, compared by cosine.${through} Everything is measured ${ways.length === 3 ? 'three ways' : 'two ways'} on the same vectors: ${ways.map(({ name }) => name).join(', ')}. Brackets hold 95 % intervals, from drawing people again; where no error was seen, they end at the rate that so many people would have shown (the rule of three). “Too few” stands where fewer than three errors are expected at a rate. Terms follow ISO/IEC 19795-1.`;
}

const percent = (value: number) => `${(100 * value).toFixed(2)} %`;
const interval = ({ value, low, high }: Interval) =>
  `${percent(value)} [${(100 * low).toFixed(2)}, ${(100 * high).toFixed(2)}]`;
const TOO_FEW = 'too few';

function atRates(
  ways: readonly Way[],
  at: (evaluation: Evaluation) => readonly AtRate[],
  missed: string,
  rate: string,
): Part {
  const rates = at(ways[0]!.evaluation).map((each) => each.rate);
  return {
    head: ['', ...rates.flatMap((each) => [`${missed} at ${rate} ${percent(each)}`, 'threshold'])],
    rows: ways.map(({ name, evaluation }) => [
      name,
      ...at(evaluation).flatMap(({ missed: found, threshold }) =>
        found === undefined
          ? [TOO_FEW, '']
          : [interval(found), Number.isFinite(threshold) ? threshold!.toFixed(4) : 'none'],
      ),
    ]),
  };
}

function curves(ways: readonly Way[], of: (evaluation: Evaluation) => readonly AtRate[]): Line[] {
  return ways.map(({ name, evaluation }) => ({
    name,
    points: of(evaluation).map(({ rate, missed }) => ({
      x: rate,
      y: missed!.value,
      low: missed!.low,
      high: missed!.high,
    })),
  }));
}

const RATES = [0.0001, 0.001, 0.01, 0.1];

function drawn(...[title, ...rest]: Parameters<typeof linePlot>): { title: string; plot: string } {
  return { title, plot: linePlot(title, ...rest) };
}

/** A logarithmic axis down to what the curves reach. */
function rateAxis(title: string, lines: readonly Line[], of: 'x' | 'y') {
  const values = lines.flatMap(({ points }) => points.map((point) => point[of])).filter((value) => value > 0);
  const least = Math.min(0.1, ...values);
  const min = 10 ** Math.floor(Math.log10(least) + 1e-9);
  return { title, log: true, min, max: 1, ticks: [...RATES.filter((rate) => rate >= min), 1] };
}

/** Nothing where there is no curve to see. */
function ratePlot(file: string, title: string, x: string, y: string, lines: readonly Line[]): Part[] {
  if (lines.every(({ points }) => points.length <= 1)) return [];
  return [{ file, ...drawn(title, rateAxis(x, lines, 'x'), rateAxis(y, lines, 'y'), lines) }];
}

/** Round shares from the least to 1, five at most between them. */
function shareTicks(min: number): number[] {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2].find((each) => (1 - min) / each < 5.5)!;
  const count = Math.round((1 - min) / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => 1 - step * (count - i)).filter((tick) => tick >= min - 1e-9);
}

function identification({ ways }: Measured): Part[] {
  const { probes, people, cmc } = ways[0]!.evaluation.identification;
  const shown = [1, 5, 10, 20].filter((rank) => rank <= cmc.length);
  const lines = ways.map(({ name, evaluation }) => ({
    name,
    points: evaluation.identification.cmc.map(({ value, low, high }, i) => ({ x: i + 1, y: value, low, high })),
  }));
  const least = Math.min(...lines.flatMap(({ points }) => points.map(({ low }) => low)));
  const min = Math.min(0.95, Math.floor(least * 20) / 20);
  return [
    { heading: 'Identification, closed set' },
    {
      text: `Each of ${count(probes)} vectors of ${count(people)} people who have several is searched for among all others. The true positive identification rate (TPIR) within a rank is the share whose person is among so many best matches; a stranger with the same score ranks first.`,
    },
    {
      head: ['TPIR', ...shown.map((rank) => `rank ${rank}`)],
      rows: ways.map(({ name, evaluation }) => [
        name,
        ...shown.map((rank) => (probes < 3 ? TOO_FEW : interval(evaluation.identification.cmc[rank - 1]!))),
      ]),
    },
    {
      file: 'cmc',
      ...drawn(
        'Cumulative match characteristic',
        { title: 'rank', min: 1, max: cmc.length, ticks: shown },
        { title: 'TPIR', min, max: 1, ticks: shareTicks(min) },
        lines,
        'bottom',
      ),
    },
  ];
}

function openSet({ ways }: Measured): Part[] {
  const { enrolled, mated, strangers } = ways[0]!.evaluation.openSet;
  const lines = curves(ways, ({ openSet: { curve } }) => curve);
  return [
    { heading: 'Identification, open set' },
    {
      text: `${count(enrolled)} people are enrolled with one vector each. ${count(mated)} other vectors of theirs search, and so do ${count(strangers)} vectors of people who are not enrolled. The false positive identification rate (FPIR) is the share of the latter that return anybody. The false negative identification rate (FNIR) is the share of the former whose person is not first, or below the threshold.`,
    },
    atRates(ways, ({ openSet: { at } }) => at, 'FNIR', 'FPIR'),
    ...ratePlot('open-set', 'FNIR against FPIR', 'FPIR', 'FNIR', lines),
  ];
}

function verification({ ways }: Measured): Part[] {
  const { genuine, impostor, impostorsOf } = ways[0]!.evaluation.verification;
  const others = impostor < impostorsOf ? `${count(impostor)} of ${count(impostorsOf)}` : count(impostor);
  const lines = curves(ways, ({ verification: { curve } }) => curve);
  return [
    { heading: 'Verification' },
    {
      text: `Pairs of vectors: ${count(genuine)} of one person, ${others} of two. The false match rate (FMR) is the share of the latter at or above a threshold, the false non-match rate (FNMR) that of the former below it; at the equal error rate (EER) they are the same.`,
    },
    atRates(ways, ({ verification: { at } }) => at, 'FNMR', 'FMR'),
    {
      head: ['', 'EER'],
      rows: ways.map(({ name, evaluation }) => {
        const { equalErrorRate } = evaluation.verification;
        return [name, equalErrorRate === undefined ? TOO_FEW : interval(equalErrorRate)];
      }),
    },
    ...ratePlot('det', 'Detection error trade-off', 'FMR', 'FNMR', lines),
  ];
}

const plain = (value: number) => String(Number(value.toPrecision(3)));
const mean = ({ mean: value, error }: Mean) => `${value.toFixed(3)} ± ${error.toFixed(3)}`;

function cost({ encrypted, vectors }: Measured): Part[] {
  const { plan, bytes, searchSeconds, plainSeconds, enrolSeconds, error } = encrypted;
  return [
    { heading: 'What encryption costs' },
    {
      head: ['', 'encrypted', 'in the clear'],
      rows: [
        ['a template', size(plan.bytes.perTemplate), size(4 * plan.dimension)],
        ['a query', size(plan.bytes.query), size(4 * plan.dimension)],
        ['a response, per template', `${plan.bytes.responsePerScore.toFixed(1)} B`, '4.0 B'],
        ['this gallery on disk', size(bytes), size(4 * plan.dimension * vectors.taken)],
        ['a search, client and store on this machine', duration(1000 * searchSeconds), duration(1000 * plainSeconds)],
        ['enrolment of all', duration(1000 * enrolSeconds), ''],
        ['error of a score, measured (rms; mean)', `${plain(error.rms)}; ${plain(error.bias)}`, '0'],
        ['error of a score, as planned (rms)', plain(plan.error.total), '0'],
      ],
    },
  ];
}

function protectionParts(measured: Measured): Part[] {
  return [
    { heading: 'Protection, after ISO/IEC 24745' },
    ...confidentiality(measured),
    ...irreversibility(measured),
    ...unlinkability(measured),
    ...renewability(measured),
  ];
}

function confidentiality({ protection: { confidentiality: spread }, encrypted: { plan } }: Measured): Part[] {
  const { coreSvp, secure, logQ, n } = plan.security;
  return [
    { heading: 'Confidentiality', level: 3 },
    {
      text: `Templates and probes are encrypted with ring learning with errors: ${plan.parameters.name}, a ring of dimension ${n} and a modulus of ${logQ.toFixed(1)} bits. By the core-SVP model the best lattice attack takes 2^${coreSvp.classical} operations, and 2^${coreSvp.quantum} with a quantum computer. It is ${secure ? 'within' : 'NOT within'} the limits of the 2024 tables against quantum computers for 128 bits. Payloads and ids are sealed with AES-256-GCM. The store sees how many records there are, when they change, and that a search was made.`,
    },
    {
      text: `How evenly coefficients fill their range: χ² over 256 equal parts, divided by its degrees of freedom. Where there is nothing to see it is near 1, and in 95 % between ${spread.likely[0].toFixed(2)} and ${spread.likely[1].toFixed(2)}.`,
    },
    {
      head: ['what the store has', 'χ² / 255'],
      rows: [
        ['a block of templates', spread.block.toFixed(2)],
        ['a query', spread.query.toFixed(2)],
        ['the same templates, unprotected', spread.unprotected.toFixed(2)],
      ],
    },
  ];
}

function irreversibility({ protection, compressor }: Measured): Part[] {
  const { irreversibility: found, templates, dimension } = protection;
  const { rehearsed, knownProbes, compressed } = found;
  return [
    { heading: 'Irreversibility', level: 3 },
    {
      text: `The cosine of a vector of ${dimension} dimensions and what an attacker makes of it: 1 is the vector itself, and ±${(1 / Math.sqrt(dimension)).toFixed(3)} is what a random direction has. Attackers that learn do so from one half of the people, and attack the other.`,
    },
    {
      head: ['what the attacker has', 'cosine'],
      rows: [
        [`the stored block of ${templates} templates: its ciphertext, taken for them`, mean(found.ciphertext)],
        ['nothing but the mean of other vectors', mean(found.guess)],
        [
          'the block and decrypted scores of a probe, after rehearsing with blocks and keys of its own: the probe',
          rehearsed ? mean(rehearsed) : TOO_FEW,
        ],
        ...(compressed
          ? [
              [
                `compressed vectors in the clear (${compressor!.method}), undone by what was learned from other people`,
                mean(compressed),
              ],
            ]
          : []),
        knownProbes
          ? [
              `decrypted scores of a probe, and those of ${count(knownProbes.known)} probes it knows: the probe`,
              mean(knownProbes),
            ]
          : ['decrypted scores of a probe, and those of probes it knows: the probe', TOO_FEW],
        [
          `decrypted scores of a probe with ${templates - 20} templates it knows, by least squares: the probe`,
          mean(found.scores),
        ],
      ],
    },
    {
      text: 'The last rows say what encryption does not protect: whoever has the key, decrypted scores or compressed vectors has the vectors, more or less. Keep them from whoever keeps the gallery.',
    },
  ];
}

function unlinkability({ protection: { unlinkability: linked } }: Measured): Part[] {
  return [
    { heading: 'Unlinkability', level: 3 },
    {
      text: `D_sys of Gomez-Barrero et al. (0: cannot be linked; 1: can always be). The linking function is the correlation of the coefficients of two ciphertexts, of ${linked.pairs} pairs with the same templates and as many with others.`,
    },
    {
      head: ['two enrolments', 'D_sys'],
      rows: [
        ['under different keys', linked.twoKeys.toFixed(3)],
        ['under one key', linked.oneKey.toFixed(3)],
        [
          'shuffled: what so few pairs come to by chance',
          `${linked.chance.toFixed(3)}, in 95 % up to ${linked.likely.toFixed(3)}`,
        ],
        ['unprotected vectors of a person, by their cosine', linked.unprotected.toFixed(3)],
      ],
    },
  ];
}

function renewability({ protection, encrypted: { sameAfterRotation } }: Measured): Part[] {
  const { probes, oldBlock, newBlock, chance } = protection.renewability;
  const row = (name: string, { found, refused }: Crossed) => [name, `${refused} of ${probes}`, `${found} of ${probes}`];
  return [
    { heading: 'Renewability', level: 3 },
    {
      text: `After the key was rotated, ${percent(sameAfterRotation)} of the searches made again found the same as before; where scores are nearly equal, fresh noise may put another first. Old and new do not match: the same templates were enrolled under two keys, and probes of one searched the other. By chance ${percent(chance)} would find their own template.`,
    },
    {
      head: ['', 'refused by decryption', 'found their template'],
      rows: [row('new queries, old block', oldBlock), row('old queries, new block', newBlock)],
    },
  ];
}

function repetition(measured: Measured): Part[] {
  const { command, digests, date, version, commit, machine, seed, draws, vectors } = measured;
  const { plan } = measured.encrypted;
  return [
    { heading: 'How to repeat this' },
    {
      items: [
        `Command: ${command}`,
        ...digests.map(({ file, sha256 }) => `SHA-256 of ${file}: ${sha256}`),
        `Date: ${date}; hers ${version}${commit === undefined ? '' : `, commit ${commit}`}; Node ${machine.node}; ${machine.os}`,
        `Machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB`,
        `Seed ${seed}; ${draws} draws of people for the intervals; ${count(vectors.taken)} vectors`,
        `Profile ${plan.profile}, parameter set ${plan.parameters.name}, ${plan.dimension} dimensions indexed; keys and noise are fresh in every run, so encrypted figures differ in their last digits`,
      ],
    },
  ];
}
