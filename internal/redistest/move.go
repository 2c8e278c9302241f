package redistest

import "fmt"

// MoveStage is a point between two steps of a slot's move.
type MoveStage string

// These are the stages of a move, in their order.
const (
	// MoveImporting: the target serves requests with ASKING for the slot. The source does not
	// know it yet.
	MoveImporting MoveStage = "importing"
	// In the stage MoveMigrating, the source answers ASK for missing keys. It answers TRYAGAIN if
	// it has only some keys of a command.
	MoveMigrating MoveStage = "migrating"
	// MoveKey is the stage after each moved key.
	MoveKey MoveStage = "key"
	// MoveEmptied: the target has all keys; the slot still belongs to the source.
	MoveEmptied MoveStage = "emptied"
	// MoveClaimed: the target owns the slot, but the source may not know it yet.
	MoveClaimed MoveStage = "claimed"
)

// MoveSlot moves a slot with its keys from one node to another, step by step as a resharding
// does, while the cluster serves. It calls at, which may be nil, between the steps. It returns
// when all nodes agree.
func (c *Cluster) MoveSlot(slot int, from, to *Server, at func(MoveStage)) {
	c.t.Helper()
	if c.shared {
		c.t.Fatal("a shared cluster belongs to all tests: use NewCluster to move its slots")
	}
	if at == nil {
		at = func(MoveStage) {}
	}
	source, target := from.Must("CLUSTER", "MYID"), to.Must("CLUSTER", "MYID")
	to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	at(MoveImporting)
	from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	at(MoveMigrating)
	c.moveKeys(slot, from, to, at)
	at(MoveEmptied)
	// The target comes first: if the source knew first, no node would serve the slot for a while.
	to.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	at(MoveClaimed)
	from.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	c.AwaitHealthy()
}

// moveKeys moves the keys one by one, until the source has none.
func (c *Cluster) moveKeys(slot int, from, to *Server, at func(MoveStage)) {
	c.t.Helper()
	for {
		// The keys are moved one at a time, so that the test can observe a slot that is half moved.
		keys := from.Must("CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			return
		}
		args := []any{"MIGRATE", "127.0.0.1", to.p.port, keys[0], 0, patience.Milliseconds()}
		if password := to.p.settings.password; password != "" {
			args = append(args, "AUTH", password)
		}
		// NOKEY means that a client deleted the key in between.
		if got := from.Must(args...); got != "OK" && got != "NOKEY" {
			c.t.Fatalf("MIGRATE %v returned %v", keys[0], fmt.Sprint(got))
		}
		at(MoveKey)
	}
}
