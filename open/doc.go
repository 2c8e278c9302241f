// Package open chooses an engine by its URL, so that a program runs on any
// engine by changing one setting.
//
//	sqlite:PATH?OPTION=VALUE          one file on this machine
//	redis://USER:PASSWORD@HOST/DB     a Redis or Valkey server; rediss:// with TLS
//	redis+unix:///PATH                one on this machine
//	redis+sentinel://HOST/MASTER      the primary that Sentinels name; rediss+sentinel://
//	redis+cluster://HOST              a cluster; rediss+cluster://
//	http://TOKEN@HOST/NAMESPACE       a duly server
//	https://TOKEN@HOST/NAMESPACE
//
// Unknown schemes and options are refused, for a misspelled option that is
// silently ignored is found in production. A URL may carry a secret: whoever
// prints one prints [Redact] of it.
//
// To import this package is to link every engine, and with them SQLite, the
// client library of Redis and net/http: some 10 MB of program, where one engine
// alone is about half of it. A program that needs only one imports the package
// of that one (sqliteengine, redisengine or httpengine).
package open
