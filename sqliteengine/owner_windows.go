package sqliteengine

import "os"

// giveTo has nothing to do: a new file has the rights of its folder.
func giveTo(string, *os.File) error { return nil }
