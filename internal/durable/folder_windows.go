package durable

// SyncFolder does nothing: Windows can't sync a folder, and NTFS logs renames.
func SyncFolder(string) error { return nil }
