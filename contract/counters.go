package contract

import "github.com/dulymq/duly"

// Counter is one of the counters of a queue, with its name in the API.
type Counter struct {
	Name  string
	Value int64
}

// CountersOf returns the counters of a queue in the order of the contract.
func CountersOf(c *duly.Counters) []Counter {
	return []Counter{
		{"pushed", c.Pushed}, {"merged", c.Merged}, {"delivered", c.Delivered}, {"acked", c.Acked}, {"failed", c.Failed},
		{"stalled", c.Stalled}, {"released", c.Released}, {"slowed", c.Slowed}, {"dead", c.Dead},
		{"requeued", c.Requeued}, {"expired", c.Expired}, {"deleted", c.Deleted}, {"dropped", c.Dropped},
	}
}
