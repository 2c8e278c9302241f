package wire

// Health is the answer to a check of a server's health.
type Health struct {
	// Status is ok or degraded.
	Status string
	// Unavailable and Full are names of pools.
	Unavailable, Full []string
}

func (f *fields) health(h *Health) {
	f.answer("Health")
	f.text("status", &h.Status, required, `enum:"ok,degraded"`,
		"degraded: some pools do not answer, or refuse new jobs.")
	texts(f, "unavailable", &h.Unavailable, maxPools, optional, "", "The pools that do not answer.")
	texts(f, "full", &h.Full, maxPools, optional, "",
		"The pools that refuse new jobs because their disk is full. Everything else continues.")
}

// maxPools is larger than the number of pools of any server.
const maxPools = 1000
