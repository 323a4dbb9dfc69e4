// /openapi.json, from the table of routes and the schemas that requests are validated against.

import { OCTETS } from '@hers/service';
import type { Route } from './routes.ts';
import { errorBody } from './schemas.ts';

const NEEDS = {
  open: 'No token.',
  device: 'A token of scope device, write or admin.',
  search: 'A token of scope search, write or admin.',
  write: 'A token of scope write or admin.',
  admin: 'A token of scope admin.',
};

const pathOf = (url: string) => url.replace(/:(\w+)/g, '{$1}');

function parametersOf({ params }: Route): object[] {
  const properties = (params as { properties?: Record<string, object> } | undefined)?.properties ?? {};
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'path', required: true, schema }));
}

/** A message is frames of octets; its head is described besides, because no media type does. */
function bodyOf({ takes }: Route): object | undefined {
  if (!takes) return undefined;
  const description =
    takes.kind === 'message'
      ? `A message: frames, each a length (u32, little-endian) and that many bytes. The first is JSON that fits x-hers-head; then ${takes.parts}.`
      : takes.description;
  const content = { [OCTETS]: { schema: { type: 'string', format: 'binary' } } };
  return { required: true, description, content, ...(takes.kind === 'message' ? { 'x-hers-head': takes.head } : {}) };
}

function answerOf({ gives }: Route): object {
  switch (gives.kind) {
    case 'json':
      return { description: 'Done.', content: { 'application/json': { schema: gives.body } } };
    case 'octets':
      return {
        description: `Octets: ${gives.description}.`,
        content: { [OCTETS]: { schema: { type: 'string', format: 'binary' } } },
        ...(gives.head ? { 'x-hers-head': gives.head } : {}),
      };
    case 'text':
      return { description: gives.description, content: { [gives.type]: { schema: { type: 'string' } } } };
    case 'nothing':
      return { description: 'Done.' };
  }
}

export function openApi(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const { method, url, operation, summary, needs, gives } = route;
    const body = bodyOf(route);
    const path = (paths[pathOf(url)] ??= {});
    path[method.toLowerCase()] = {
      operationId: operation,
      summary,
      description: `${NEEDS[needs]}${method === 'GET' || body ? '' : ` Sent with the content type ${OCTETS}, though without a body.`}`,
      parameters: parametersOf(route),
      ...(body ? { requestBody: body } : {}),
      responses: {
        [gives.status]: answerOf(route),
        default: {
          description: 'What went wrong.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
      security: needs === 'open' ? [] : [{ token: [] }],
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'HERS',
      version,
      description:
        'Encrypted galleries behind HTTP. Only ciphertexts, sealed records and opaque handles cross it; keys, vectors, ids and scores stay with clients. Use the SDK rather than these paths: it encrypts, verifies and ranks.',
    },
    paths,
    components: {
      schemas: { Error: errorBody },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  };
}
