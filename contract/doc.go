// Package contract is what the author of an engine needs: the interfaces that an engine
// implements, and the rules that every engine shares. Programs that push and handle jobs
// use the root package and package worker instead.
//
// # Interfaces
//
// [Engine] is the whole of an engine. Its parts are grouped by caller: [duly.Engine] has
// the calls of producers and workers, [Inspector] reads, [Operator] changes queues and
// jobs. The other interfaces are optional. A caller finds them by a type assertion:
//
//	Topics           topics and groups
//	Maintainer       engines that own their storage: steps, sweeps, checks
//	Registry         tokens, with Watcher and Limiter
//	Placer           which namespace is in which pool
//	Targeter         targets of HTTP push
//	Surveyor         stats of many queues with few requests
//	CancelWatcher    reports of removed jobs
//	Passer           hands a wake-up to the next waiter
//
// # Rules
//
// The functions and types of this package are the arithmetic and the checks that engines
// must agree on: validation ([ValidateJob], [ValidateConfig] and more, which collect every
// fault in a [BadFields]), planning ([PlanJob]), numbers, shards and receipts
// ([ReceiptParts]), the state table ([Next]), rate limits ([Bucket]), and the errors.
//
// Package enginetest proves that an engine follows the contract, docs/contract.md.
package contract
