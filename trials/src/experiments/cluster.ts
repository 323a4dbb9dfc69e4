// Enrolment and search on clusters of one, two and three nodes beside one plain server, and what
// follows from it for clusters that nobody measured.

import { type Data, type Experiment, type Figure, record } from '@hers/paper/lab/experiment';
import { type Values, wholeNumber } from '@hers/paper/lab/runner';
import { run } from '../bench/cluster.ts';

export interface ClusterParameters {
  readonly nodes: readonly number[];
  readonly count: number;
  readonly dimension: number;
  readonly searches: number;
  readonly shards: number;
  readonly few: number;
}

export const cluster: Experiment = {
  name: 'cluster',
  summary: 'enrolment and search on several nodes beside one server, and a model of many nodes',
  options: {
    count: { type: 'string', help: 'templates (100000)' },
    dimension: { type: 'string', help: 'dimension (128)' },
    searches: { type: 'string', help: 'searches of each gallery (30)' },
  },
  measure,
};

async function measure(values: Values): Promise<Data<ClusterParameters>> {
  const small = values.small === true;
  const given = {
    nodes: small ? '1' : '1,2,3',
    count: String(wholeNumber(values, 'count', small ? 200 : 100_000)),
    dimension: String(wholeNumber(values, 'dimension', small ? 16 : 128)),
    searches: String(wholeNumber(values, 'searches', small ? 2 : 30)),
  };
  const { parameters, results } = await run(given);
  const { nodes, count, dimension, searches, shards, few } = parameters as unknown as ClusterParameters;
  return record('cluster', values, {
    parameters: { nodes, count, dimension, searches, shards, few },
    results: results.map((each): Figure => ({ ...each, source: 'measured' })),
  });
}
