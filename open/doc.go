// Package open opens an engine by its URL, so that one setting chooses the engine of a
// program.
//
//	sqlite:PATH?OPTION=VALUE          one file on this machine
//	redis://USER:PASSWORD@HOST/DB     a Redis or Valkey server; rediss:// with TLS
//	redis+unix:///PATH                one on this machine
//	redis+sentinel://HOST/MASTER      the primary that Sentinels name; rediss+sentinel://
//	redis+cluster://HOST              a cluster; rediss+cluster://
//	http://TOKEN@HOST/NAMESPACE       a duly server
//	https://TOKEN@HOST/NAMESPACE
//
// Unknown schemes and options are refused, because a misspelled option would be noticed in
// production only. A URL may have a secret, so print [Redact] of it.
//
// This package links every engine, and with them SQLite, the client library of Redis and
// net/http, about 10 MB. One engine alone is about half of that. A program with one engine
// imports the package of that engine: sqliteengine, redisengine or httpengine.
package open
