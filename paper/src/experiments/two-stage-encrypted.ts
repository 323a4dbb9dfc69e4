// The paper's two stages on its own engine, with real vectors: a coarse search by the HERS
// encoding, and the best K again at full dimension by Boddeti's, both encrypted; compared with the
// same search of the same rounded vectors in the clear.

import { isDeepStrictEqual } from 'node:util';
import { best, Context, type PaperMatch, roundVectors, TwoStageClient, TwoStageServer } from '@hers/paper';
import type { Part } from '../data/datasets.ts';
import { progress } from '../lab/report.ts';
import { stopwatch } from '../lab/timing.ts';

export interface EncryptedTwice {
  readonly probes: number;
  /** Candidates of the second stage, the probe itself left out. */
  readonly k: number;
  /** Probes whose ranked list, scores included, is the one in the clear. */
  readonly same: number;
  /** The share of probes that a mate is first for. */
  readonly rank1: number;
  /** Of the server: the fastest of the probes. */
  readonly seconds: readonly [number, number];
}

/** `coarse` and `fine` are the same templates, at unit length; probes are places among them. */
export async function encryptedTwice(
  coarse: Part,
  fine: Part,
  probes: ArrayLike<number>,
  k: number,
  about: string,
): Promise<EncryptedTwice> {
  const dimensions = { coarseDimension: coarse.dimension, fineDimension: fine.dimension };
  const { labels } = fine;
  using context = await Context.open();
  using client = new TwoStageClient(context, dimensions);
  using server = new TwoStageServer(context, client.keys, { ...dimensions, templates: labels.length });
  progress(`${about}: ${labels.length} templates encrypted for both stages of the published system`);
  const uploads = client.enrol({ coarse: doubles(coarse.vectors), fine: doubles(fine.vectors) });
  for (const upload of uploads.coarse) server.coarse.enrol(upload);
  for (const upload of uploads.fine) server.fine.enrol(upload);
  const rounded = [coarse, fine].map(({ vectors, dimension }) => {
    return { integers: roundVectors(context.parameters, doubles(vectors), dimension), dimension };
  });
  let [first, second] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let [same, found] = [0, 0];
  for (const probe of Array.from(probes)) {
    progress(`${about}: both stages encrypted, probe ${probe}`);
    const query = client.query({ coarse: vectorAt(coarse, probe), fine: vectorAt(fine, probe) });
    const begun = stopwatch();
    const responses = [...server.coarse.search(query.coarse)];
    first = Math.min(first, begun().seconds);
    // One more, for the probe itself is in the gallery.
    const request = query.refine(responses, k + 1);
    const again = stopwatch();
    const rescored = [...server.rescore(request)];
    second = Math.min(second, again().seconds);
    const ranked = query.rank(rescored);
    if (isDeepStrictEqual(ranked, inTheClear(rounded[0], rounded[1], probe, k + 1))) same++;
    const others = ranked.filter(({ index }) => index !== probe);
    if (others.every(({ index, score }) => score < others[0].score || labels[index] === labels[probe])) found++;
  }
  return { probes: probes.length, k, same, rank1: found / probes.length, seconds: [first, second] };
}

interface Rounded {
  readonly integers: Int32Array;
  readonly dimension: number;
}

/** The slow and obvious version. */
export function inTheClear(coarse: Rounded, fine: Rounded, probe: number, k: number): PaperMatch[] {
  const scores = ({ integers, dimension }: Rounded, places: Iterable<number>) =>
    Array.from(places, (place) => {
      let score = 0;
      for (let i = 0; i < dimension; i++) score += integers[probe * dimension + i] * integers[place * dimension + i];
      return { first: place, integers: Int32Array.of(score) };
    });
  const all = Array.from({ length: coarse.integers.length / coarse.dimension }, (_, place) => place);
  const candidates = best(scores(coarse, all), k).map(({ index }) => index);
  return best(scores(fine, candidates), k);
}

const doubles = (vectors: Float32Array) => Float64Array.from(vectors);

function vectorAt({ vectors, dimension }: Part, place: number): Float32Array {
  return vectors.subarray(place * dimension, (place + 1) * dimension);
}
