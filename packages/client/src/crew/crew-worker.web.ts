// One Web Worker of a crew.

import { serveCrew } from './crew.web.ts';

serveCrew();
