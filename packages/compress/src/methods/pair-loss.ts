// The loss of DeepMDS and DeepMDS++: pairs of vectors keep their similarity. The batch holds the
// left vectors of all pairs, then the right ones; each pair brings its similarity in the input
// space and its weight, so that averages over kinds of pairs are a matter of the weights.

import type { Graph, Value } from '../training/autodiff.ts';

export interface PairLoss {
  /** The text squares the error; the authors' code takes its absolute value. */
  error: 'squared' | 'absolute';
  /**
   * The text adds `weight · ‖C − diag C‖²_F`; the authors' code, `weight` times the mean of the
   * absolute values.
   */
  covariance: 'frobenius' | 'mean-absolute';
  covarianceWeight: number;
}

export interface PairInputs {
  /** Similarities in the input space, `[pairs, 1]`. */
  similarity: Value;
  /** `[pairs, 1]`. */
  weight: Value;
  /** One over the number of rows, `[]`. */
  perRow: Value;
}

export function pairInputs(graph: Graph): PairInputs {
  return {
    similarity: graph.input('similarity', ['pairs', 1]),
    weight: graph.input('weight', ['pairs', 1]),
    perRow: graph.input('perRow', []),
  };
}

/**
 * `Σ weight · error(similarity − cos(left, right)) + λ · penalty(covariance)` for the rows `z` of a
 * batch.
 */
export function pairLoss(graph: Graph, z: Value, { similarity, weight, perRow }: PairInputs, loss: PairLoss): Value {
  const unit = graph.normalise(z);
  const [left, right] = graph.halves(unit, 'pairs');
  const error = graph.sub(similarity, graph.sum(graph.mul(left, right), 'rows'));
  const size = loss.error === 'squared' ? graph.square(error) : graph.abs(error);
  const kept = graph.sum(graph.mul(size, weight));
  if (loss.covarianceWeight === 0) return kept;
  const columns = z.shape[1] as number;
  const mean = graph.mul(graph.sum(z, 'columns'), perRow);
  const centred = graph.sub(z, mean);
  const covariance = graph.mul(graph.matmul(centred, centred, { transA: true }), perRow);
  const off = graph.mul(covariance, graph.tensor('off', offDiagonal(columns), [columns, columns]));
  const penalty =
    loss.covariance === 'frobenius'
      ? graph.sum(graph.square(off))
      : graph.scale(graph.sum(graph.abs(off)), 1 / (columns * columns));
  return graph.add(kept, graph.scale(penalty, loss.covarianceWeight));
}

function offDiagonal(n: number): Float32Array {
  return Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 0 : 1));
}
