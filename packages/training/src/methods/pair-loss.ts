// The loss of DeepMDS and DeepMDS++: pairs of vectors keep their similarity. The batch holds the
// left vectors of all pairs, then the right ones; each pair brings its weight, so that averages
// over kinds of pairs are a matter of the weights.

import type { Graph, Value } from '../training/autodiff.ts';

export interface PairLoss {
  /** The text squares the error; the authors' code takes its absolute value. */
  error: 'squared' | 'absolute';
  /**
   * The text adds `weight · ‖C − diag C‖²_F`; the authors' code, `weight` times the mean of the
   * absolute values. C is the covariance of the outputs at unit length, as in that code: the
   * similarities do not depend on the length, so that a network could otherwise shrink its outputs
   * until the penalty vanishes.
   */
  covariance: 'frobenius' | 'mean-absolute';
  covarianceWeight: number;
}

export interface PairInputs {
  /** The vectors of the pairs, `[rows, dimension]`, at unit length. */
  x: Value;
  /** `[pairs, 1]`. */
  weight: Value;
  /** One over the number of rows, `[]`. */
  perRow: Value;
}

/** The pairs are given by the places of their vectors in a set. */
export function pairInputs(graph: Graph, dimension: number): PairInputs {
  return {
    x: gathered(graph, dimension),
    weight: graph.input('weight', ['pairs', 1]),
    perRow: graph.input('perRow', []),
  };
}

/** The vectors at places of a set. */
export function gathered(graph: Graph, dimension: number): Value {
  return graph.gather(graph.input('set', ['all', dimension]), graph.places('places', 'rows'));
}

/**
 * `left · right` of unit vectors before the network, less the same after it: `[pairs, 1]`. The left
 * ones come first, then the right ones.
 */
export function pairErrors(graph: Graph, x: Value, unit: Value): Value {
  const [before, after] = [x, unit].map((rows) => {
    const [left, right] = graph.halves(rows, 'pairs');
    return graph.sum(graph.mul(left, right), 'rows');
  });
  return graph.sub(before, after);
}

/**
 * `Σ weight · error(x · x' − cos(z, z')) + λ · penalty(covariance)` for the rows `z` of a batch.
 * The penalty, weight included, is an output of its own.
 */
export function pairLoss(graph: Graph, z: Value, { x, weight, perRow }: PairInputs, loss: PairLoss): Value {
  const unit = graph.normalise(z);
  const error = pairErrors(graph, x, unit);
  const size = loss.error === 'squared' ? graph.square(error) : graph.abs(error);
  const kept = graph.sum(graph.mul(size, weight));
  if (loss.covarianceWeight === 0) return kept;
  const columns = z.shape[1] as number;
  const mean = graph.mul(graph.sum(unit, 'columns'), perRow);
  const centred = graph.sub(unit, mean);
  const covariance = graph.mul(graph.matmul(centred, centred, { transA: true }), perRow);
  const off = graph.mul(covariance, graph.tensor('off', offDiagonal(columns), [columns, columns]));
  const penalty =
    loss.covariance === 'frobenius'
      ? graph.sum(graph.square(off))
      : graph.scale(graph.sum(graph.abs(off)), 1 / (columns * columns));
  const weighted = graph.scale(penalty, loss.covarianceWeight);
  graph.output('penalty', weighted);
  return graph.add(kept, weighted);
}

function offDiagonal(n: number): Float32Array {
  return Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 0 : 1));
}
