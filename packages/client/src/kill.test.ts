// The short form of `npm run campaign -- crash`.

import { it } from 'node:test';
import { killCampaign } from './kill.node.ts';

it('a process killed while it enrols, deletes, optimises and rotates loses nothing that was acknowledged', () =>
  killCampaign(5));
