// Package codec packs and unpacks the data that the engine and its scripts exchange: records,
// policies, the arguments of a push, and jobs in answers.
//
// A record holds all of a job. Its flags say which parts are present. Properties that many jobs
// share, such as tries and lease, form a policy. The shard stores each policy once, and records
// name it by a byte. A bare job has the contract's defaults and no options. Its record is a head
// and its body.
//
// Lists and numbers are MessagePack, which the scripts read with cmsgpack.
// lua/include/job.lua describes a record, and docs/redis-layout.md has examples.
//
// # Files
//
// Each file uses only files named before it:
//
//	message.go, msgpack.go   replies of the server, and MessagePack
//	record.go                records and policies
//	push.go                  the arguments of a push
//	stored.go, handed.go     jobs in answers: to reads, and to a Reserve
package codec
