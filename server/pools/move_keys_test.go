package pools_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// During a move, a key has the jobs of both pools. It is listed once, also with a cursor from before the move.
func TestKeysDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	q := duly.QueueRef{Namespace: "shop", Name: "q"}
	push := func(e duly.Engine, n int, keys ...string) {
		t.Helper()
		for _, key := range keys {
			for range n {
				results, err := e.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", OrderKey: key}})
				if err != nil || results[0].Err != nil {
					t.Fatal(results, err)
				}
			}
		}
	}
	walk := func(cursor string) (text []string, next string) {
		t.Helper()
		p := contract.KeysParams{PageParams: duly.PageParams{Limit: 1, Cursor: cursor}}
		for {
			page, err := r.Keys(t.Context(), q, p)
			r.must(err)
			for _, k := range page.Keys {
				text = append(text, fmt.Sprint(k.Key, k.Waiting))
			}
			if next == "" {
				next = page.Next
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				return text, next
			}
		}
	}

	push(r, 3, "a", "b", "e") // each has a head and two waiting jobs
	push(r, 1, "c")
	_, begun := walk("")
	r.move("shop", "orders")
	push(r, 2, "b", "c", "d")
	push(r.engines["orders"], 1, "e")

	if got, _ := walk(""); !slices.Equal(got, []string{"a2", "b3", "e2", "c1", "d1"}) {
		t.Errorf("the keys of both pools are %v", got)
	}
	if got, _ := walk(begun); !slices.Equal(got, []string{"b3", "e2", "c1", "d1"}) {
		t.Errorf("the keys after a cursor from before the move are %v", got)
	}

	// The head in the old pool goes first.
	head, err := r.engines["default"].Get(t.Context(), q, r.holder(q, "c").Head.ID)
	if err != nil || head.OrderKey != "c" {
		t.Errorf("the head of c in the old pool is %+v, %v", head, err)
	}
	if n := r.holder(q, "b").Waiting; n != 3 {
		t.Errorf("%d jobs wait for b in both pools, want 3", n)
	}
	if k := r.holder(q, "d"); k.Head.ID == "" || k.Waiting != 1 {
		t.Errorf("the key of the new pool is %+v", k)
	}
	if _, err := r.Holder(t.Context(), q, "none"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the holder of a free key: %v", err)
	}

	// After the move, a cursor of the new pool continues there, and one of the old pool begins the new one.
	r.must(r.engines["default"].Destroy(t.Context(), q))
	page, err := r.Keys(t.Context(), q, contract.KeysParams{PageParams: duly.PageParams{Limit: 1, Cursor: "n~"}})
	r.must(err)
	r.endMove("shop")
	if got, _ := walk(page.Next); !slices.Equal(got, []string{"c1", "d1"}) {
		t.Errorf("the keys after a cursor of the new pool are %v", got)
	}
	if got, _ := walk("o~" + begun); !slices.Equal(got, []string{"b1", "c1", "d1"}) {
		t.Errorf("the keys after a cursor of the old pool are %v", got)
	}
}

// holder returns an order key.
func (r *rig) holder(q duly.QueueRef, key string) contract.KeyInfo {
	r.t.Helper()
	info, err := r.Holder(r.t.Context(), q, key)
	r.must(err)
	return info
}
