package enginetest

import (
	"fmt"
	"sync"

	"github.com/dulymq/duly"
)

// keyOrder checks the deliveries of an ordered group: one at a time of each key, in log
// order.
type keyOrder struct {
	mu      sync.Mutex
	running map[string]string // key → the message that is being handled
	acked   map[string]string // key → the last message that was acked
	faults  []string
}

func (k *keyOrder) begin(d duly.Delivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		k.running, k.acked = map[string]string{}, map[string]string{}
	}
	if other, busy := k.running[d.OrderKey]; busy {
		k.faults = append(k.faults, fmt.Sprintf("message %s of key %s was handed out while %s was being handled",
			d.ID, d.OrderKey, other))
	}
	if last := k.acked[d.OrderKey]; d.ID <= last {
		k.faults = append(k.faults, fmt.Sprintf("message %s of key %s was handed out after %s was acked", d.ID,
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
