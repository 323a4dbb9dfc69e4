// One Web Worker of a crew.

import { serveCrew } from './serve-crew.web.ts';

serveCrew();
