import { testResults } from '../../testing/results.ts';
import { EXPERIMENTS } from './index.ts';

testResults(EXPERIMENTS);
