package sqliteengine

import "os"

// giveTo does nothing: a new file has the permissions of its folder.
func giveTo(string, *os.File) error { return nil }
