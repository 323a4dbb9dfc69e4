// Every kind of attack there is.

import { BOMBS } from './bombs.ts';
import type { Attack } from './fight.ts';
import { FLOODS } from './floods.ts';
import { MALFORMED } from './malformed.ts';
import { SLOW } from './slow.ts';

export const ATTACKS: readonly Attack[] = [...MALFORMED, ...SLOW, ...FLOODS, ...BOMBS];
/** Those that a server meets when it goes down. */
export const LASTING: readonly string[] = SLOW.map(({ name }) => name);
