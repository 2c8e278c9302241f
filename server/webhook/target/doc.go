// Package target keeps the registered targets of HTTP push, and the secrets of namespaces.
//
// An engine stores a target as a version and a text that only this package reads. Target
// headers and secrets are sealed (package seal) before they leave the server, each for
// its namespace, target and generation. A record without a name has the secret of its
// namespace.
//
// # Changes
//
// A change reads the record, changes it, and stores it under its version. If another
// server has changed the record meanwhile, the change is made again. So a rotation and a
// disable at the same time both count.
//
// # What happens on each failure
//
//   - A secret does not open: Secret fails, and names no part of it.
//   - Another server creates the secret of a namespace at the same moment: the first one
//     counts for both.
package target
