// Package config is how `duly serve` is set up: a file, the environment and
// flags, which say the same things under three names.
//
//	drain = "1m"        in duly.toml
//	DULY_DRAIN=1m       in the environment
//	--drain 1m          on the command line
//
// # One table
//
// [Table] declares every setting once: its key, its flag, what it may be, what
// holds where nobody sets it, what it means, and whether a running server takes
// it over. From it come the flags with their help, the judging of values, and
// the table of docs/configuration.md. To add a setting is to add a field to
// [Settings] and a line to the table.
//
// # From three layers to one
//
// [Load] reads each layer into one of koanf's, and lays them over each other:
// the file, the variables that are not empty, the flags that were given. A
// configuration of lmstfy's is such a layer, too: each key that means something
// here becomes the setting that it is, and the others are listed. Each
// value is judged in the layer that won, and keeps its [Origin], so that a fault
// names the file and line, the variable or the flag that somebody has to
// change. What no layer sets has its default.
//
// A layer is judged as a whole: [Faults] lists everything that is wrong, also
// with the files that settings name, and then there are no [Settings]. So a
// server starts with all of what was asked or not at all, and a reload takes
// over everything or nothing.
//
// # Secrets
//
// The URL of an engine holds a password. What this package shows of a value, in
// a fault or to `duly config show`, goes through open.Redact.
package config
