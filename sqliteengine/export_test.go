package sqliteengine

// ReadRowByRow lets every page be read in transactions of one row each, as if a
// checkpoint always waited for the end of reads.
func (e *Engine) ReadRowByRow() { e.readers.gate.closed.Store(true) }
