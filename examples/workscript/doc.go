// Package workscript tests deliver.sh, an example of a script for `duly work --exec`.
package workscript
