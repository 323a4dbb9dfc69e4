// What the workers of models are made of: `models.js`, beside the page.

export { facesModel } from './faces.ts';
export { serveModel } from './model.ts';
export { sentencesModel } from './sentences.ts';
