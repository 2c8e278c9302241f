package sqliteengine

import (
	"cmp"
	"slices"
)

// Operations that meet in one transaction were all called before any of them is
// answered, so no caller can tell in which order they are done. Those of a kind
// are done one after the other, in the order in which they came, and share
// statements: many callers that each bring one job cost little more than one who
// brings them all.

// joins is with what an operation shares statements.
type joins int

// The kinds, in the order in which a transaction does them. Reserves come last:
// they find what the others bring and free.
const (
	joinsPushes joins = iota - 2
	joinsRemovals
	joinsNothing // 0: what says nothing joins nothing
	joinsReserves
)

// arrange brings operations of a kind together.
func arrange(ops []*op) {
	slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.joins, b.joins) })
}

// flush does what waits for its turn to be one statement, before an operation
// of that kind runs.
func (t *tx) flush(next joins) error {
	if next != joinsPushes {
		if err := t.flushPushes(); err != nil {
			return err
		}
		if err := t.flushMessages(); err != nil {
			return err
		}
	}
	if next != joinsRemovals {
		if err := t.flushRemovals(); err != nil {
			return err
		}
	}
	if next != joinsReserves {
		return t.flushSupplies()
	}
	return nil
}
