// Package durable writes files that appear completely or not at all, and survive a power cut.
//
// A file is written under a temporary name in the same folder, synced and renamed. Then the
// folder is synced, because a power cut may undo a rename that was not synced. A crash at any
// point leaves either the old file or the complete new one, and perhaps the temporary file.
package durable
