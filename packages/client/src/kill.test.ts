// The short form of `npm run campaign -- crash`.

import { it } from 'node:test';
import { killCampaign } from '../testing/kill.ts';

it('a process killed while it enrols, deletes, optimizes and rotates loses nothing that was acknowledged', () =>
  killCampaign(5));
