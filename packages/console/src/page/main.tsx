// The page begins here.

import { render } from 'preact';
import { App } from './app.tsx';
import { ignoreOtherDrops } from './parts.tsx';
import { followAddress } from './route.ts';
import { arrive, sessionHeaders } from './session.ts';
import { lockWhenLeft } from './unlocked.ts';
import { watchFetch } from './wire.ts';

watchFetch(sessionHeaders);
followAddress();
lockWhenLeft();
ignoreOtherDrops();
render(<App />, document.getElementById('console')!);
void arrive();
