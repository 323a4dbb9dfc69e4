// The three encodings by name, in the order of the paper's Table 2.

import { BODDETI } from './boddeti.ts';
import type { Encoding, EncodingName } from './encoding.ts';
import { HERS } from './hers.ts';
import { NAIVE } from './naive.ts';

export const ENCODINGS: Readonly<Record<EncodingName, Encoding>> = { naive: NAIVE, boddeti: BODDETI, hers: HERS };
