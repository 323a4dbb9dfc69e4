// `npm run lab`: the experiments of the paper, and those about the product.

import { registerCuda } from '@hers/cuda';
import { EXPERIMENTS as PAPER } from '@hers/paper/experiments/index';
import { runLab } from '@hers/paper/lab/lab';
import { EXPERIMENTS } from './experiments/index.ts';

await registerCuda();
process.exitCode = await runLab([PAPER, EXPERIMENTS], process.argv.slice(2));
