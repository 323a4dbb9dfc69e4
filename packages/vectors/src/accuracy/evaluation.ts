// All that a report says about accuracy, from the scores of every vector with every other:
// identification, open set and verification, with intervals bootstrapped over people. Terms follow
// ISO/IEC 19795-1.

import { Random } from '../random.ts';
import { matedPlaces, rankOfMate } from './identification.ts';
import {
  bootstrapped,
  equalErrorRate,
  type Interval,
  missedAt,
  type Outcomes,
  ofRate,
  outcomesOf,
  thresholdsAt,
} from './rates.ts';

/** A rate at which something is measured, and what it is there; without it, there are too few. */
export interface AtRate {
  readonly rate: number;
  /** FNIR or FNMR. */
  readonly missed?: Interval;
  readonly threshold?: number;
}

export interface Evaluation {
  readonly vectors: number;
  readonly people: number;
  /** Closed set: every vector whose person has another is searched for among all others. */
  readonly identification: {
    readonly probes: number;
    readonly people: number;
    /** True positive identification rate within rank 1, 2, 3, …. */
    readonly cmc: readonly Interval[];
  };
  /** Some people are enrolled with one vector each; their others search, and so do strangers. */
  readonly openSet: {
    readonly enrolled: number;
    readonly mated: number;
    readonly strangers: number;
    /** FNIR against FPIR. */
    readonly curve: readonly AtRate[];
    readonly at: readonly AtRate[];
  };
  /** All pairs of one person's vectors, and those of two people, or as many as are drawn. */
  readonly verification: {
    readonly genuine: number;
    readonly impostor: number;
    /** Of so many. */
    readonly impostorsOf: number;
    /** FNMR against FMR. */
    readonly curve: readonly AtRate[];
    readonly at: readonly AtRate[];
    readonly equalErrorRate?: Interval;
  };
}

export interface EvaluationOptions {
  readonly seed?: number;
  /** Of people, with replacement. */
  readonly draws?: number;
  /** The last rank of the CMC. */
  readonly ranks?: number;
  /** Pairs of two people that are taken at most, as the seed draws them. */
  readonly impostors?: number;
}

const FPIRS = [0.01, 0.001];
const FMRS = [0.01, 0.001, 0.0001];
const CURVE = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
/** Below so many expected errors a rate says nothing: none seen in n is compatible with 3 / n. */
const ERRORS = 3;
/** Enough for fifty errors at the lowest rate; all pairs of 10 000 vectors are fifty million. */
const IMPOSTORS = 500_000;
/** People with one vector who are enough to be the strangers. */
const STRANGERS = 100;

/** `scores` has a row for each vector; `labels` says whose it is. */
export function evaluation(
  scores: Float32Array,
  labels: ArrayLike<number>,
  { seed = 1, draws = 200, ranks = 20, impostors = IMPOSTORS }: EvaluationOptions = {},
): Evaluation {
  const count = labels.length;
  if (scores.length !== count * count) throw new RangeError('there must be a score for every two vectors');
  const numbers = new Map<number, number>();
  const person = Int32Array.from({ length: count }, (_, i) => {
    if (!numbers.has(labels[i])) numbers.set(labels[i], numbers.size);
    return numbers.get(labels[i])!;
  });
  const given: Given = { scores, person, people: numbers.size, seed, draws };
  return {
    vectors: count,
    people: numbers.size,
    identification: identification(given, ranks),
    openSet: openSet(given),
    verification: verification(given, impostors),
  };
}

/** Scores, whose vectors they are of, and how people are drawn again. */
interface Given {
  readonly scores: Float32Array;
  readonly person: Int32Array;
  readonly people: number;
  readonly seed: number;
  readonly draws: number;
}

/** Scores of one vector with all. */
const rowOf = ({ scores, person }: Given, i: number) => scores.subarray(i * person.length, (i + 1) * person.length);

function identification(given: Given, most: number): Evaluation['identification'] {
  const { person, people } = given;
  const probes = matedPlaces(person);
  const ranks = Int32Array.from(probes, (i) => rankOfMate(rowOf(given, i), person, person[i], i));
  const cmc = bootstrapped(
    people,
    (weights) => {
      const within = new Float64Array(most + 1);
      let total = 0;
      probes.forEach((probe, n) => {
        total += weights[person[probe]];
        if (ranks[n] <= most) within[ranks[n]] += weights[person[probe]];
      });
      let sum = 0;
      return Array.from(within.subarray(1), (weight) => (sum += weight) / total);
    },
    given,
  );
  const searched = new Set(Array.from(probes, (i) => person[i])).size;
  return { probes: probes.length, people: searched, cmc: cmc.map((each) => ofRate(each, searched)) };
}

/** People with one vector are strangers; if too few, every second one that the seed draws. */
export function enrolment(
  person: Int32Array,
  people: number,
  seed: number,
): { enrolled: number[]; mated: number[]; strangers: number[] } {
  const sizes = new Int32Array(people);
  for (const each of person) sizes[each]++;
  const isStranger = Uint8Array.from(sizes, (size) => Number(size === 1));
  if (isStranger.reduce((sum, one) => sum + one, 0) < STRANGERS) {
    const several = Array.from(sizes.keys()).filter((p) => sizes[p] > 1);
    const order = new Random(seed, 0x5e7).order(several.length);
    for (const at of order.subarray(0, several.length >> 1)) isStranger[several[at]] = 1;
  }
  const [enrolled, mated, strangers]: number[][] = [[], [], []];
  const seen = new Set<number>();
  person.forEach((each, i) => {
    if (isStranger[each]) strangers.push(i);
    else if (seen.has(each)) mated.push(i);
    else {
      seen.add(each);
      enrolled.push(i);
    }
  });
  return { enrolled, mated, strangers };
}

function openSet(given: Given): Evaluation['openSet'] {
  const { person } = given;
  const { enrolled, mated, strangers } = enrolment(person, given.people, given.seed);
  const whose = Int32Array.from(enrolled, (i) => person[i]);
  /** The score of the mate if it came first. Ties go to the stranger. */
  const mateScore = (i: number) => {
    const row = rowOf(given, i);
    let [mate, other] = [-Infinity, -Infinity];
    for (let e = 0; e < enrolled.length; e++) {
      if (whose[e] === person[i]) mate = row[enrolled[e]];
      else if (row[enrolled[e]] > other) other = row[enrolled[e]];
    }
    return mate > other ? mate : -Infinity;
  };
  const top = (i: number) => {
    const row = rowOf(given, i);
    return enrolled.reduce((best, e) => Math.max(best, row[e]), -Infinity);
  };
  const of = (places: number[], score: (i: number) => number) =>
    outcomesOf(
      Float64Array.from(places, score),
      Int32Array.from(places, (i) => person[i]),
    );
  const [genuine, impostor] = [of(mated, mateScore), of(strangers, top)];
  return {
    enrolled: enrolled.length,
    mated: mated.length,
    strangers: strangers.length,
    ...curveOf(genuine, impostor, FPIRS, given),
  };
}

function verification(given: Given, most: number): Evaluation['verification'] {
  const { genuine, impostor, impostorsOf } = pairsOf(given, most);
  const [genuines, impostors] = [genuine.scores.length, impostor.scores.length];
  const isEnough = genuines >= ERRORS && impostors >= ERRORS;
  const [eer] = isEnough
    ? bootstrapped(given.people, (weights) => [equalErrorRate(genuine, impostor, weights)], given)
    : [];
  return {
    genuine: genuines,
    impostor: impostors,
    impostorsOf,
    ...curveOf(genuine, impostor, FMRS, given),
    ...(eer === undefined ? {} : { equalErrorRate: ofRate(eer, new Set(genuine.first).size) }),
  };
}

/**
 * Outcomes of pairs. Those of one person all count. Of the others each is taken with the same
 * chance, until there are as many as wanted (Knuth, "Seminumerical Algorithms", 3.4.2, S).
 */
function pairsOf({ scores, person, people, seed }: Given, most: number) {
  const count = person.length;
  const sizes = new Float64Array(people);
  for (const each of person) sizes[each]++;
  const ofOne = sizes.reduce((sum, size) => sum + (size * (size - 1)) / 2, 0);
  const impostorsOf = (count * (count - 1)) / 2 - ofOne;
  const list = (length: number) => ({
    found: new Float32Array(length),
    first: new Int32Array(length),
    second: new Int32Array(length),
    at: 0,
  });
  const [genuine, impostor] = [list(ofOne), list(Math.min(most, impostorsOf))];
  const random = new Random(seed, 0x9a1);
  let left = impostorsOf;
  for (let i = 0; i < count; i++)
    for (let j = 0; j < i; j++) {
      const isGenuine = person[i] === person[j];
      const into = isGenuine ? genuine : impostor;
      if (!isGenuine) {
        const wanted = impostor.found.length - impostor.at;
        const isTaken = wanted === left || random.uniform() * left < wanted;
        left--;
        if (!isTaken) continue;
      }
      into.found[into.at] = scores[i * count + j];
      into.first[into.at] = person[i];
      into.second[into.at++] = person[j];
    }
  const outcomes = ({ found, first, second }: typeof genuine) => outcomesOf(found, first, second);
  return { genuine: outcomes(genuine), impostor: outcomes(impostor), impostorsOf };
}

/** The curve, where there are enough outcomes to say something, and some of its points. */
function curveOf(
  genuine: Outcomes,
  impostor: Outcomes,
  rates: readonly number[],
  given: Given,
): { curve: AtRate[]; at: AtRate[] } {
  const { people } = given;
  const { length } = impostor.scores;
  const enough = CURVE.filter((rate) => rate * length >= ERRORS && genuine.scores.length >= ERRORS);
  const missed =
    enough.length === 0 ? [] : bootstrapped(people, (weights) => missedAt(genuine, impostor, enough, weights), given);
  const thresholds = thresholdsAt(impostor, enough, new Float64Array(people).fill(1));
  const whose = new Set(genuine.first).size;
  const curve = enough.map((rate, i) => ({ rate, missed: ofRate(missed[i], whose), threshold: thresholds[i] }));
  return { curve, at: rates.map((rate) => curve.find((each) => each.rate === rate) ?? { rate }) };
}
