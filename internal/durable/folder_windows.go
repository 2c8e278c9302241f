package durable

// SyncFolder has nothing to do: Windows has no sync of a folder, and NTFS logs
// renames.
func SyncFolder(string) error { return nil }
