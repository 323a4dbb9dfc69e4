export {
  fitSphere,
  type GraphDistanceEstimate,
  type GraphDistanceOptions,
  graphDistanceDimension,
} from './graph-distance.ts';
export { likelihoodDimension } from './likelihood.ts';
export { type Distance, type NearestOptions, type Neighbours, nearest } from './nearest.ts';
export { recommendedDimensions } from './recommendation.ts';
export { twoNearestDimension } from './two-nearest.ts';
