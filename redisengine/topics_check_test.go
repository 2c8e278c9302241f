package redisengine

import (
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// Check finds what another program has changed in a group, and a repair mends it.
func TestCheckOfAGroup(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	tag := prefix + ":{default/t/0}:"
	place := func(e *Engine, key string) string {
		return e.command(t, "ZRANGE", tag+"@g:"+key, "0", "0")[0]
	}
	for kind, plant := range map[string]func(e *Engine){
		"held_without_message": func(e *Engine) { e.command(t, "XTRIM", tag+"log", "MAXLEN", "1") },
		"message_in_two_sets":  func(e *Engine) { e.command(t, "ZADD", tag+"@g:ready", "1", place(e, "waiting")) },
		"entry_without_message": func(e *Engine) {
			e.command(t, "ZADD", tag+"@g:ready", "9", "\x00\x00\x00\x00\x09\x01\x02\x03\x04\x05\x06")
		},
		"group_missing":       func(e *Engine) { e.command(t, "HDEL", tag+"heads", "g") },
		"group_not_listed":    func(e *Engine) { e.command(t, "HSET", tag+"heads", "ghost", e.command(t, "HGET", tag+"heads", "g")[0]) },
		"order_key_wrong":     func(e *Engine) { e.command(t, "HSET", tag+"@g:busy", "k", place(e, "waiting")) },
		"dead_without_copy":   func(e *Engine) { e.command(t, "DEL", tag+"@g:copies") },
		"copy_without_entry":  func(e *Engine) { e.command(t, "ZREM", tag+"@g:dead", place(e, "dead")) },
		"block_without_lease": func(e *Engine) { e.command(t, "DEL", tag+"@g:ranges") },
	} {
		e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(e.DestroyTopic(ctx, duly.Q("t")))
		_, err := e.CreateGroup(ctx, duly.Q("t@g"), duly.FromStart)
		must(err)
		_, err = e.Publish(ctx, make6())
		must(err)
		got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"t@g"}, Max: 4})
		must(err)
		minute := time.Minute
		_, err = e.Settle(ctx, "", []duly.Outcome{{Receipt: got[1].Receipt, As: duly.Nack, Delay: &minute}, {Receipt: got[2].Receipt, As: duly.Bury}})
		must(err)

		kinds := func(repair bool) (kinds []string) {
			r, err := e.Check(ctx, duly.CheckParams{Repair: repair})
			must(err)
			for _, f := range r.Faults {
				kinds = append(kinds, f.Kind)
			}
			return kinds
		}
		if before := kinds(false); len(before) > 0 {
			t.Fatalf("%s: a sound group has the faults %v", kind, before)
		}
		plant(e)
		if found := kinds(false); !slices.Contains(found, kind) {
			t.Errorf("%s: the check found %v", kind, found)
		}
		kinds(true)
		if left := kinds(false); len(left) > 0 {
			t.Errorf("%s: after a repair there is %v", kind, left)
		}
	}
}

func make6() []duly.Message {
	all := make([]duly.Message, 6)
	for i := range all {
		all[i] = duly.Message{Topic: "t", Body: []byte{byte(i)}}
	}
	return all
}

// command sends a command, and returns the texts of its answer.
func (e *Engine) command(t *testing.T, words ...string) []string {
	t.Helper()
	msg, err := e.store.Link.Do(t.Context(), e.store.Link.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err != nil {
		t.Fatal(err)
	}
	if list, err := msg.AsStrSlice(); err == nil {
		return list
	}
	text, _ := msg.ToString()
	return []string{text}
}
