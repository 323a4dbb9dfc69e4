export { type Audit, type AuditEntry, type AuditOptions, type LeftOut, openAudit } from './audit.ts';
export { LIMITS, type LimitName, type Limits } from './limits.ts';
export type { LogLevel, LogOptions } from './logs.ts';
export type { CorsOrigins } from './pages.ts';
export type { Scope } from './routes.ts';
export { type RunningServer, type ServeOptions, startServer } from './server.ts';
export type { TlsFiles } from './tls.ts';
export { SCOPES, type Token, TokenCheck, TokenStore } from './tokens.ts';
export { keepProcessSmall } from './tune.ts';
