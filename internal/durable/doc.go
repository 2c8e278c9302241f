// Package durable lets files appear whole or not at all, and last.
//
// A file is written under another name beside its place, synced, renamed, and
// the folder is synced too: before that a power cut may take the new name back.
// Whenever the process dies there is either what was there before or the whole
// new file; what may be left over is the other name.
package durable
