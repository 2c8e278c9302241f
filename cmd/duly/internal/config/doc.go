// Package config reads the configuration of `duly serve` from a file, the environment
// and flags. Each setting has a name in all three:
//
//	drain = "1m"        in duly.toml
//	DULY_DRAIN=1m       in the environment
//	--drain 1m          on the command line
//
// # One table
//
// [Table] declares every setting once: its key, flag, type, default and meaning, and
// whether a running server can reload it. The flags with their help, the validation of
// values and the table of docs/configuration.md are derived from it. To add a setting,
// add a field to [Settings] and an entry to the table.
//
// # Layers
//
// [Load] reads each source into a layer and merges the layers. Flags override
// variables, and variables override the file. An empty variable counts as not set. A
// configuration file of lmstfy is a layer too: a key with a meaning in duly becomes the
// corresponding setting, and the others are listed. Each value keeps its [Origin], so an
// error names the file and line, the variable or the flag to change. A setting that no
// layer sets has its default.
//
// Load validates everything before it returns. [Errors] lists all that is wrong,
// including the contents of files that settings name, and then there are no [Settings].
// So a server starts with the whole configuration or not at all, and a reload applies
// all changes or none.
//
// # Secrets
//
// The URL of an engine holds a password. Every value that this package shows, in an
// error or to `duly config show`, goes through open.Redact.
package config
