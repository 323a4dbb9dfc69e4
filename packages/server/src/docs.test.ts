import assert from 'node:assert/strict';
import { test } from 'node:test';
import { docsPage } from './docs.ts';
import type { Route } from './routes.ts';

const handle = async () => undefined;
const routes: readonly Route[] = [
  {
    method: 'GET',
    url: '/healthz',
    needs: 'open',
    operation: 'health',
    summary: 'Whether it runs',
    gives: { kind: 'nothing', status: 204 },
    handle,
  },
  {
    method: 'POST',
    url: '/v1/collections/:name/lists',
    needs: 'write',
    operation: 'stageList',
    summary: 'Stage a sealed list',
    takes: { kind: 'octets', description: 'the sealed list' },
    gives: { kind: 'nothing', status: 204 },
    handle,
  },
];

test('every path is in the contents, which lead to it, and has an example', () => {
  const page = docsPage(routes, '1.0');
  for (const { operation } of routes) {
    assert.equal(page.match(new RegExp(`href="#${operation}"`, 'g'))?.length, 1, operation);
    assert.equal(page.match(new RegExp(`id="${operation}"`, 'g'))?.length, 1, operation);
  }
  assert.ok(page.includes('<pre>curl &quot;$SERVER/healthz&quot;</pre>'));
  assert.match(
    page,
    /curl -X POST .*octet-stream.*Bearer \$HERS_TOKEN.* --data-binary @body &quot;\$SERVER\/v1\/collections\/faces\/lists&quot;/,
  );
});
