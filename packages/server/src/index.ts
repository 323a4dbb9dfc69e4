export { type App, type AppOptions, makeApp } from './app.ts';
export { type Audit, type AuditEntry, openAudit } from './audit.ts';
export { LIMITS, type LimitName, type Limits } from './limits.ts';
export type { LogLevel, LogOptions } from './logs.ts';
export type { CorsOrigins } from './pages.ts';
export type { Scope } from './routes.ts';
export { isLoopback, type RunningServer, type ServeOptions, startServer } from './server.ts';
export type { TlsFiles } from './tls.ts';
export { SCOPES, type Token, TokenCheck, TokenStore } from './tokens.ts';
