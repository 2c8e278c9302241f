package sqliteengine

// ReadRowByRow makes every page use one transaction per row, as if a checkpoint always waited
// for reads to end.
func (e *Engine) ReadRowByRow() { e.readers.gate.closed.Store(true) }
