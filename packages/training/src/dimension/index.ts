export { likelihoodDimension, recommendedDimensions, twoNearestDimension } from './estimates.ts';
export { type GraphDistanceEstimate, graphDistanceDimension } from './graph-distance.ts';
export { type Distance, type Neighbours, nearest } from './nearest.ts';
