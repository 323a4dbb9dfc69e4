import { testResults } from '@hers/paper/testing/results';
import { EXPERIMENTS } from './index.ts';

testResults(EXPERIMENTS);
