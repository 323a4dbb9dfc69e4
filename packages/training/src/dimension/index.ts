export { likelihoodDimension, recommendedDimensions, twoNearestDimension } from './estimates.ts';
export {
  fitSphere,
  type GraphDistanceEstimate,
  type GraphDistanceOptions,
  graphDistanceDimension,
} from './graph-distance.ts';
export { type Distance, type NearestOptions, type Neighbours, nearest } from './nearest.ts';
