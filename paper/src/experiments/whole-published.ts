// The published system, whole: both encodings under Fan-Vercauteren, enrolled in batches and
// online, searched in two stages, every ranked list compared with the one in the clear.

import { isDeepStrictEqual } from 'node:util';
import {
  askLabels,
  best,
  Context,
  type PaperMatch,
  readLabels,
  roundVectors,
  TwoStageClient,
  TwoStageServer,
} from '@hers/paper';
import type { Part } from '../data/datasets.ts';
import type { Figure } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { stopwatch } from '../lab/timing.ts';
import { mean } from '../metrics/statistics.ts';

/** The same vectors after the compressor and before it. Labels are what the server keeps as ids. */
export interface BothForms {
  readonly coarse: Part;
  readonly fine: Part;
}

/** Which templates come in a batch and which one by one: from `online[0]` to `online[1]` online. */
export interface Order {
  readonly online: readonly [from: number, to: number];
}

export async function publishedWhole(
  gallery: BothForms,
  probes: BothForms,
  k: number,
  { online }: Order,
): Promise<Figure[]> {
  const { coarse, fine } = gallery;
  const dimensions = { coarseDimension: coarse.dimension, fineDimension: fine.dimension };
  const templates = fine.labels.length;
  using context = await Context.open();
  const making = stopwatch();
  using client = new TwoStageClient(context, dimensions);
  const keySeconds = making().seconds;
  using server = new TwoStageServer(context, client.keys, { ...dimensions, templates });
  const spent = { batch: 0, online: 0 };
  const enrol = (from: number, to: number, kind: 'batch' | 'online') => {
    const part = { coarse: rows(coarse, from, to), fine: rows(fine, from, to) };
    const begun = stopwatch();
    const uploads = client.enrol(part, Array.from(fine.labels.subarray(from, to)));
    for (const upload of uploads.coarse) server.coarse.enrol(upload);
    for (const upload of uploads.fine) server.fine.enrol(upload);
    spent[kind] += begun().seconds;
  };
  progress(`published: ${online[0]} templates in a batch`);
  if (online[0] > 0) enrol(0, online[0], 'batch');
  progress(`published: ${online[1] - online[0]} templates online`);
  for (let i = online[0]; i < online[1]; i++) enrol(i, i + 1, 'online');
  progress(`published: ${templates - online[1]} templates in a batch`);
  if (online[1] < templates) enrol(online[1], templates, 'batch');

  const clear = { coarse: rounded(context, coarse), fine: rounded(context, fine) };
  const asked = { coarse: rounded(context, probes.coarse), fine: rounded(context, probes.fine) };
  const times: Record<'query' | 'stage1' | 'refine' | 'stage2' | 'rank', number[]> = {
    ...{ query: [], stage1: [], refine: [], stage2: [], rank: [] },
  };
  const bytes = { query: 0, stage1: 0, request: 0, stage2: 0 };
  let [same, first, found, coarseFound] = [0, 0, 0, 0];
  for (let probe = 0; probe < probes.fine.labels.length; probe++) {
    progress(`published: probe ${probe + 1} of ${probes.fine.labels.length}`);
    const timed = <T>(what: keyof typeof times, run: () => T): T => {
      const begun = stopwatch();
      const result = run();
      times[what].push(begun().seconds);
      return result;
    };
    const vectors = { coarse: rows(probes.coarse, probe, probe + 1), fine: rows(probes.fine, probe, probe + 1) };
    const query = timed('query', () => client.query(vectors));
    const responses = timed('stage1', () => [...server.coarse.search(query.coarse)]);
    const request = timed('refine', () => query.refine(responses, k));
    const rescored = timed('stage2', () => [...server.rescore(request)]);
    const ranked = timed('rank', () => query.rank(rescored));
    bytes.query = query.coarse.length;
    bytes.stage1 = total(responses);
    bytes.request = request.length;
    bytes.stage2 = total(rescored);
    const wanted = inTheClear(clear, asked, probe, k);
    if (isDeepStrictEqual(ranked, wanted.ranked)) same++;
    if (ranked[0].index === wanted.ranked[0].index) first++;
    const [id] = readLabels(server.coarse.labels(askLabels([ranked[0].index])));
    if (id === probes.fine.labels[probe]) found++;
    if (fine.labels[wanted.candidates[0].index] === probes.fine.labels[probe]) coarseFound++;
  }
  const count = probes.fine.labels.length;
  const measured = (name: string, value: number, unit: string): Figure => ({
    ...{ name: `published-${name}`, value, unit, source: 'measured' as const },
  });
  return [
    measured('keys', keySeconds, 's'),
    measured('keys-bytes', client.keys.length, 'bytes'),
    measured('batch', spent.batch, 's'),
    measured('online', spent.online, 's'),
    measured('uploads-coarse-bytes', server.coarse.traffic.uploads, 'bytes'),
    measured('uploads-fine-bytes', server.fine.traffic.uploads, 'bytes'),
    measured('gallery-coarse-bytes', server.coarse.galleryBytes, 'bytes'),
    measured('gallery-fine-bytes', server.fine.galleryBytes, 'bytes'),
    ...Object.entries(times).map(([what, all]) => measured(what, mean(all), 's')),
    ...Object.entries(bytes).map(([what, size]) => measured(`${what}-bytes`, size, 'bytes')),
    measured('same', same / count, 'of probes'),
    measured('first', first / count, 'of probes'),
    measured('rank1', found / count, 'rank-1'),
    measured('stage1-rank1', coarseFound / count, 'rank-1'),
  ];
}

interface Clear {
  readonly coarse: Rounded;
  readonly fine: Rounded;
}

interface Rounded {
  readonly integers: Int32Array;
  readonly dimension: number;
}

function rounded({ parameters }: Context, { vectors, dimension }: Part): Rounded {
  return { integers: roundVectors(parameters, vectors, dimension), dimension };
}

/** The slow and obvious version: all products of rounded vectors, sorted. */
function inTheClear(
  gallery: Clear,
  probes: Clear,
  probe: number,
  k: number,
): { candidates: PaperMatch[]; ranked: PaperMatch[] } {
  const scored = (form: keyof Clear, places: readonly number[]) => {
    const { integers, dimension } = gallery[form];
    const own = probes[form].integers.subarray(probe * dimension, (probe + 1) * dimension);
    return places.map((place) => {
      const score = own.reduce((sum, x, i) => sum + x * integers[place * dimension + i], 0);
      return { first: place, integers: Int32Array.of(score) };
    });
  };
  const all = Array.from({ length: gallery.coarse.integers.length / gallery.coarse.dimension }, (_, place) => place);
  const candidates = best(scored('coarse', all), k);
  const ranked = best(
    scored(
      'fine',
      candidates.map(({ index }) => index),
    ),
    k,
  );
  return { candidates, ranked };
}

const rows = ({ vectors, dimension }: Part, from: number, to: number) =>
  vectors.subarray(from * dimension, to * dimension);

const total = (messages: readonly Uint8Array[]) => messages.reduce((sum, { length }) => sum + length, 0);
