// Package archtest holds the tests that read the tree instead of running it:
// what a machine can check about a change, a machine checks.
//
//   - Which package may import which (imports_test.go).
//   - Wall time is read only in internal/clock, tests do not sleep, and
//     nothing but the few places named here draws from math/rand
//     (clock_test.go).
//   - Every package and every exported symbol has a comment
//     (comments_test.go).
//   - Every rule of docs/contract.md that is built has a test that carries its
//     number, and no test carries a number that is no rule (contract_test.go).
//   - Every imported module is justified, every error code explained, and every
//     test that docs name exists (docs_test.go).
//   - The command in internal/archtest/prose measures words, sentences and
//     functions; make prose runs it.
//
// The checks are functions over parsed files, and each is tested itself on a
// planted fault (planted_test.go): a check that finds nothing proves nothing
// until it has been seen to find something.
//
// A rule's exceptions are in its test, each with its reason.
package archtest
