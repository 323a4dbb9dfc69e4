export { decompressorOf } from './decompressor.ts';
export {
  type Example,
  learnedFrom,
  type Population,
  populationOf,
  SCORE_FEATURES,
  scoreFeatures,
  slotFeatures,
} from './population.ts';
export {
  cosine,
  fromKnownProbes,
  fromTemplates,
  fromTemplatesAndPopulation,
  type Reconstruct,
} from './reconstruct.ts';
