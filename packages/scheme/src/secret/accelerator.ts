// Everything that decryption on another processor builds on, such as that of `@hers/cuda`.

export { modulusOf, primeBits } from '../parameters.ts';
export { encodeVectors, readout, vectorNorm } from '../vectors.ts';
export {
  canaryProbe,
  canaryRoom,
  canaryScale,
  checksumRoom,
  limitOf,
  makeCanaries,
  shapeOf,
} from './canaries.ts';
export { LARGEST_RESIDUAL } from './decrypt.ts';
export { scoreWeights, WEIGHT_COPIES } from './key.ts';
export { decodeScoreSums, largestInteger, squareOf } from './score-sums.ts';
