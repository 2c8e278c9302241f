package enginetest

import (
	"fmt"
	"sync"

	"github.com/dulymq/duly"
)

// keyOrder checks the deliveries of an ordered group: one message of each key at a time, in the
// order of the log.
type keyOrder struct {
	mu      sync.Mutex
	running map[string]string // message in flight, by key
	acked   map[string]string // last acknowledged message, by key
	faults  []string
}

func (k *keyOrder) begin(d duly.Delivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		k.running, k.acked = map[string]string{}, map[string]string{}
	}
	if other, busy := k.running[d.OrderKey]; busy {
		k.faults = append(k.faults, fmt.Sprintf("message %s of key %s was delivered while %s was in flight",
			d.ID, d.OrderKey, other))
	}
	if last := k.acked[d.OrderKey]; d.ID <= last {
		k.faults = append(k.faults, fmt.Sprintf("message %s of key %s was delivered after %s was acked", d.ID,
			d.OrderKey, last))
	}
	k.running[d.OrderKey] = d.ID
}

func (k *keyOrder) end(d duly.Delivery, as duly.Settlement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, d.OrderKey)
	if as == duly.Ack {
		k.acked[d.OrderKey] = d.ID
	}
}
