package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// TestJobsAreDealtToTheCallers checks that the jobs of an answer are distributed as each caller
// wants. A number without a record counts for no caller.
func TestJobsAreDealtToTheCallers(t *testing.T) {
	t.Parallel()
	records := []string{"a", "", "b", "c", "", "d", "e", ""}
	var packed codec.Packer
	packed.Array(len(records))
	for _, r := range records {
		if r == "" {
			packed.No()
		} else {
			packed.Text(r)
		}
	}
	var numbers strings.Builder
	for i := range records {
		fmt.Fprintf(&numbers, "%0*d", codec.NumberSize, i)
	}
	for _, c := range []struct {
		wants []int // wanted jobs by caller; below 0 for a caller that has left
		got   []string
		over  int
	}{
		{[]int{1, 1, 1, 1, 1}, []string{"a", "b", "c", "d", "e"}, 0},
		{[]int{3, 1, 5}, []string{"abc", "d", "e"}, 0},
		{[]int{2, -3, 2, 1}, []string{"ab", "", "cd", "e"}, 0},
		{[]int{-3, 1}, []string{"", "a"}, 4},
		{[]int{-5}, []string{""}, 5},
		{[]int{5, 1}, []string{"abcde", ""}, 0},
	} {
		h := codec.Deliveries{N: len(records), Numbers: numbers.String(), Packed: codec.Unpacker{Rest: string(packed)},
			DefaultEnd: 7}
		h.Packed.Array()
		var calls []*Batched
		for _, n := range c.wants {
			ctx, leave := context.WithCancel(t.Context())
			call := &Batched{Call: batch.Call{Items: max(n, -n)}, share: &share{}}
			calls = append(calls, sentCall(ctx, call))
			if n < 0 {
				leave()
				_ = call.Wait()
			}
			defer leave()
		}
		deal(calls, &h, noMore, false)
		read := func(h codec.Deliveries) (all string) {
			for i := range h.N {
				number, record, there := h.Next(i)
				if there && records[slices.Index([]string{"0", "1", "2", "3", "4", "5", "6", "7"},
					number[codec.NumberSize-1:])] != record {
					t.Errorf("%s has the record %s", number, record)
				}
				all += record
			}
			return all
		}
		for i, call := range calls {
			if got := read(call.share.handed); got != c.got[i] {
				t.Errorf("%v: caller %d got %q, want %q", c.wants, i, got, c.got[i])
			}
		}
		if got := read(h); len(got) != c.over {
			t.Errorf("%v: %q are left, want %d", c.wants, got, c.over)
		}
	}
	h := codec.Deliveries{N: 3, Runs: make([]rueidis.RedisMessage, 3), Ends: make([]rueidis.RedisMessage, 3),
		Numbers: strings.Repeat("x", 3*codec.NumberSize)}
	h.Packed.Rest = "\xa1a\xa1b\xa1c"
	if first := h.Cut(2); first.N != 2 || h.N != 1 || h.First != 2 || len(h.Runs) != 1 || len(h.Ends) != 1 ||
		h.Packed.Rest != "\xa1c" {
		t.Errorf("Cut returned %d of 3 messages", first.N)
	}
}

// sentCall returns a call that was sent.
func sentCall(ctx context.Context, c *Batched) *Batched {
	c.Begin(ctx)
	c.Send()
	return c
}
