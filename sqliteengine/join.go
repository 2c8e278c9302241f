package sqliteengine

import (
	"cmp"
	"slices"
)

// Operations that meet in one transaction are all called before any of them is
// answered, so their order is free. The transaction sorts them by kind and keeps the
// order of arrival within a kind. Operations of one kind share statements, so that
// many callers with one job each cost little more than one caller with all the jobs.

// opKind is a kind of operations that share statements.
type opKind int

// The kinds in the order in which a transaction runs them. Reserves come last,
// because they find the jobs that the others push or free.
const (
	opPush opKind = iota - 2
	opDelete
	opOther // the zero value: the operation shares no statements
	opReserve
)

// sortByKind sorts operations by kind.
func sortByKind(ops []*op) {
	slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.kind, b.kind) })
}

// flush runs the waiting shared statements of other kinds than next, before an
// operation of that kind runs.
func (t *tx) flush(next opKind) error {
	if next != opPush {
		if err := t.flushPushes(); err != nil {
			return err
		}
		if err := t.flushMessages(); err != nil {
			return err
		}
	}
	if next != opDelete {
		if err := t.flushDeletes(); err != nil {
			return err
		}
	}
	if next != opReserve {
		return t.flushReserves()
	}
	return nil
}
