package redisengine

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// planted is a change by another program, and the fault that Check must report for it.
type planted struct {
	kind  string
	plant func(e *Engine)
}

// plants returns the planted faults. The numbers refer to the faults in C12.176.
func plants(t *testing.T, tag string) []planted {
	group := tag + "@g:"
	place := func(e *Engine, key string) string { return e.command(t, "ZRANGE", group+key, "0", "0")[0] }
	number := func(e *Engine, of, at, value string) {
		const set = "local n = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])) n[tonumber(ARGV[2])] = " +
			"tonumber(ARGV[3]) redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(n))"
		b := e.store.Link.B().Eval().Script(set).Numkeys(1).Key(tag+"heads").Arg(of, at, value).Build()
		if _, err := e.store.Link.Do(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	const unknown = "\x00\x00\x00\x00\x09\x01\x02\x03\x04\x05\x06"
	return []planted{
		{"held_without_message", func(e *Engine) { e.command(t, "XTRIM", tag+"log", "MAXLEN", "1") }},    // fault 1
		{"entry_without_message", func(e *Engine) { e.command(t, "ZADD", group+"ready", "9", unknown) }}, // fault 1
		{"entry_without_message", func(e *Engine) { // fault 1
			e.command(t, "HSET", group+"run", "\x00\x00\x00\x00\x00\x09", e.command(t, "HGET", group+"run", place(e, "held"))[0])
		}},
		{"entry_without_message", func(e *Engine) { e.command(t, "HSET", group+"run", place(e, "held"), "short") }},
		{"entry_without_message", func(e *Engine) { e.command(t, "DEL", group+"run") }},
		{"entry_without_message", func(e *Engine) { e.command(t, "DEL", group+"held") }},
		{"message_in_two_sets", func(e *Engine) { e.command(t, "ZADD", group+"ready", "1", place(e, "waiting")) }}, // fault 2
		{"message_in_no_set", func(e *Engine) { e.command(t, "ZREM", group+"waiting", place(e, "waiting")) }},
		{"cursor_outside_log", func(e *Engine) { number(e, "g", "2", "99") }}, // fault 3
		{"cursor_outside_log", func(e *Engine) { // fault 4
			for _, n := range [][3]string{{"", "1", "6"}, {"", "16", "5"}, {"g", "2", "1"}, {"g", "6", "6"}} {
				number(e, n[0], n[1], n[2])
			}
		}},
		{"held_beyond_cursor", func(e *Engine) { number(e, "g", "2", "1") }},
		// 5.
		{"group_missing", func(e *Engine) { e.command(t, "HDEL", tag+"heads", "g") }},
		// 6.
		{"group_not_listed", func(e *Engine) {
			e.command(t, "HSET", tag+"heads", "ghost",
				e.command(t, "HGET", tag+"heads", "g")[0])
		}},
		// 7.
		{"order_key_wrong", func(e *Engine) { e.command(t, "HSET", group+"busy", "k", place(e, "waiting")) }},
		// 8.
		{"dead_without_copy", func(e *Engine) { e.command(t, "DEL", group+"copies") }},
		{"dead_without_copy", func(e *Engine) { e.command(t, "HSET", group+"copies", place(e, "dead"), "short") }},
		{"copy_without_entry", func(e *Engine) { e.command(t, "ZREM", group+"dead", place(e, "dead")) }},
		{"block_without_lease", func(e *Engine) { e.command(t, "DEL", group+"ranges") }},
		{"block_without_lease", func(e *Engine) { e.command(t, "DEL", group+"firsts") }},
		{"delayed_without_record", func(e *Engine) { e.command(t, "DEL", tag+"records") }}, // fault 9
		{"delayed_not_listed", func(e *Engine) { e.command(t, "DEL", tag+"entries") }},
		{"delayed_unreadable", func(e *Engine) { e.command(t, "HSET", tag+"records", "x", "short") }},
		{"counters_differ", func(e *Engine) { number(e, "", "12", "77") }},  // fault 10
		{"counters_differ", func(e *Engine) { number(e, "g", "13", "77") }}, // fault 10
		{"log_end_wrong", func(e *Engine) { e.command(t, "XADD", tag+"log", "4000000000000-7", "a", "b") }},
		{"log_end_wrong", func(e *Engine) { e.command(t, "XADD", tag+"log", "4000000000000-900", "m", "\xff") }},
		{"message_unreadable", func(e *Engine) { e.rewriteLog(t, tag+"log", 5, "\x02\x09cut") }},
		{"delayed_unreadable", func(e *Engine) { cutRecord(t, e, tag, 13) }},
		{"delayed_unreadable", func(e *Engine) { cutRecord(t, e, tag, 3) }},
		{"numbers_unreadable", func(e *Engine) { e.command(t, "HSET", tag+"heads", "", "junk") }},
		{"numbers_unreadable", func(e *Engine) { e.command(t, "HSET", tag+"heads", "", "\x91\xc0") }},
		{"numbers_unreadable", func(e *Engine) { e.command(t, "HDEL", tag+"heads", "") }},
		{"numbers_unreadable", func(e *Engine) { e.command(t, "HSET", tag+"heads", "g", "junk") }},
		{"numbers_unreadable", func(e *Engine) { e.command(t, "HSET", tag+"heads", "g", "\x93\xa1b\xa4many\x01") }},
		{"entry_without_message", func(e *Engine) { e.command(t, "ZADD", group+"ready", "9", "short") }},
		{"entry_without_message", func(e *Engine) { e.command(t, "ZADD", group+"waiting", "9", "short") }},
		{"entry_without_message", func(e *Engine) { e.command(t, "ZADD", group+"blocked", "0", "\x01kshort") }},
		{"entry_without_message", func(e *Engine) { // the key of a state ends beyond its page
			page := []byte(e.command(t, "HGET", group+"run", place(e, "held"))[0])
			page[28] = 0xff
			e.command(t, "HSET", group+"run", place(e, "held"), string(page))
		}},
		{"order_key_wrong", func(e *Engine) { e.command(t, "HSET", group+"busy", "", place(e, "waiting")) }},
		{"order_key_wrong", func(e *Engine) { e.command(t, "HSET", group+"busy", strings.Repeat("k", 300), "x") }},
		{"dead_without_copy", func(e *Engine) {
			e.command(t, "HSET", group+"copies", place(e, "dead"), strings.Repeat("\x00", 10)+"\x04\x00")
		}},
		{"block_without_lease", func(e *Engine) { e.command(t, "HSET", group+"blocks", place(e, "firsts"), "short") }},
		{"block_without_lease", func(e *Engine) { e.command(t, "ZADD", group+"ranges", "inf", "a token") }},
		{"limiter_wrong", func(e *Engine) {
			e.command(t, "HSET", group+"tally", "limiter", "1 1"+strings.Repeat(" 0", 20))
		}},
		{"moment_missed", func(e *Engine) { // fault 11
			number(e, "g", "10", "0")
			e.command(t, "DEL", group+"marker")
		}},
	}
}

// misplacedIn returns the sorted sets of a group and of a topic, each with impossible scores.
func misplacedIn(t *testing.T, tag string) (all []planted) {
	for key, scores := range map[string][]string{
		"@g:waiting": {"inf", "-inf", "-5", "1893456060000.5", "1e300"},
		"@g:leased":  {"inf", "-inf", "-5", "1893456000000.5", "9e15"},
		"@g:ranges":  {"inf", "-inf", "-5", "1893456000000.5", "9e15"},
		"@g:firsts":  {"inf", "3"},
		"@g:held":    {"inf", "0"},
		"@g:dead":    {"inf", "-5"},
		"entries":    {"inf", "1893456000000.5"},
		"delayed":    {"inf", "-5"},
	} {
		for _, score := range scores {
			all = append(all, planted{"place_wrong", func(e *Engine) {
				e.command(t, "ZADD", tag+key, score, e.command(t, "ZRANGE", tag+key, "0", "0")[0])
			}})
		}
	}
	return all
}

// cutRecord cuts the record of the delayed message to a size.
func cutRecord(t *testing.T, e *Engine, tag string, size int) {
	name := e.command(t, "HKEYS", tag+"records")[0]
	e.command(t, "HSET", tag+"records", name, e.command(t, "HGET", tag+"records", name)[0][:size])
}

// rewriteLog replaces the value of one entry of a stream.
func (e *Engine) rewriteLog(t *testing.T, key string, ordinal int, value string) {
	t.Helper()
	b := e.store.Link.B()
	entries, err := e.store.Link.Do(t.Context(), b.Xrange().Key(key).Start("-").End("+").Build())
	if err != nil {
		t.Fatal(err)
	}
	list, err := entries.AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	e.command(t, "DEL", key)
	for _, entry := range list {
		text := entry.FieldValues["m"]
		if strings.HasSuffix(entry.ID, "-"+strconv.Itoa(ordinal)) {
			text = value
		}
		e.command(t, "XADD", key, entry.ID, "m", text)
	}
}

// TestCheckRepairsATopic checks that Check finds another program's changes to a topic, and that a
// repair fixes them. Then the topic works again.
//
// C12.176
func TestCheckRepairsATopic(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	tag := prefix + ":{default/t/0}:"
	for i, planted := range append(plants(t, tag), misplacedIn(t, tag)...) {
		kind, plant := strconv.Itoa(i)+" "+planted.kind, planted.plant
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
		_, err = e.Publish(ctx, append(make6(), duly.Message{Topic: "t", Delay: time.Hour}))
		must(err)
		got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"t@g"}, Max: 4})
		must(err)
		_, err = e.Extend(ctx, "", []duly.Receipt{got[3].Receipt}, time.Hour)
		must(err)
		minute := time.Minute
		_, err = e.Settle(ctx, "", []duly.SettleRequest{{Receipt: got[1].Receipt, As: duly.Nack, Delay: &minute},
			{Receipt: got[2].Receipt, As: duly.Bury}})
		must(err)

		kinds := func(repair bool) (kinds []string) {
			r, err := e.Check(ctx, contract.CheckParams{Repair: repair})
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
		if found := kinds(false); !slices.Contains(found, planted.kind) {
			t.Errorf("%s: Check found %v", kind, found)
		}
		kinds(true)
		if left := kinds(false); len(left) > 0 {
			t.Errorf("%s: after a repair Check found %v", kind, left)
		}
		results, err := e.Publish(ctx, make6()[:1])
		must(err)
		must(results[0].Err)
		if got, err = e.Reserve(ctx, duly.ReserveParams{Queues: []string{"t@g"}, Max: 10}); err != nil || len(got) == 0 {
			t.Errorf("%s: after a repair Reserve returned %d messages, %v", kind, len(got), err)
		}
	}
}

// TestCheckContinuesAfterAnUnreadableShard checks that a shard which scripts can't read is a
// fault, and that the check continues with other shards and queues.
//
// C12.176
func TestCheckContinuesAfterAnUnreadableShard(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	const end = "18446744073709551615-18446744073709551615"
	for name, plant := range map[string]func(e *Engine, tag string){
		"a log of another type": func(e *Engine, tag string) {
			e.command(t, "DEL", tag+"log")
			e.command(t, "SET", tag+"log", "x")
		},
		"junk for the numbers": func(e *Engine, tag string) { e.command(t, "HSET", tag+"heads", "", "junk") },
		"junk for a group":     func(e *Engine, tag string) { e.command(t, "HSET", tag+"heads", "g", "junk") },
		"numbers of no number": func(e *Engine, tag string) { e.command(t, "HSET", tag+"heads", "", "\x91\xc0") },
		"an entry at the end":  func(e *Engine, tag string) { e.command(t, "XADD", tag+"log", end, "m", "x") },
		"held of another type": func(e *Engine, tag string) {
			e.command(t, "DEL", tag+"@g:held")
			e.command(t, "SET", tag+"@g:held", "x")
		},
	} {
		for _, repair := range []bool{false, true} {
			e, ctx := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake()), t.Context()
			tag := func(shard int) string {
				return store.ShardTag(prefix, duly.QueueRef{Namespace: duly.DefaultNamespace, Name: "t"}, shard)
			}
			for shard := range 2 {
				e.command(t, "DEL", tag(shard)+"log")
				e.command(t, "DEL", tag(shard)+"heads")
			}
			if err := e.DestroyTopic(ctx, duly.Q("t")); err != nil {
				t.Fatal(err)
			}
			if err := e.ConfigureTopic(ctx, duly.Q("t"), duly.TopicConfig{Shards: 2}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.CreateGroup(ctx, duly.Q("t@g"), duly.FromStart); err != nil {
				t.Fatal(err)
			}
			// The messages go to both shards.
			for range 20 {
				if _, err := e.Publish(ctx, make6()); err != nil {
					t.Fatal(err)
				}
			}
			plant(e, tag(0))
			e.command(t, "HSET", tag(1)+"heads", "ghost", e.command(t, "HGET", tag(1)+"heads", "g")[0])

			r, err := e.Check(ctx, contract.CheckParams{Repair: repair})
			if err != nil {
				t.Errorf("%s: Check with repair %v returned %v", name, repair, err)
				continue
			}
			has := func(detail string) bool {
				return slices.ContainsFunc(r.Faults, func(f contract.Fault) bool {
					return strings.Contains(f.Kind+" "+f.Detail,
						detail)
				})
			}
			if !has("group_not_listed shard 1") || len(r.Faults) < 2 {
				t.Errorf("%s: Check with repair %v found %+v, want the fault of each shard", name, repair, r.Faults)
			}
		}
	}
}

// TestPublishIgnoresUnreadableIDs checks that another program's data among the IDs of a topic
// does not fail a Publish.
func TestPublishIgnoresUnreadableIDs(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	if err := e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{Dedupe: time.Hour}); err != nil {
		t.Fatal(err)
	}
	e.command(t, "HSET", prefix+":{default/t/0}:ids", "known", "short")
	e.command(t, "LPUSH", prefix+":{default/t/0}:seen", "short")

	for _, want := range []duly.PushStatus{duly.Created, duly.Exists} {
		results, err := e.Publish(t.Context(), []duly.Message{{Topic: "t", ID: "known"}})
		if err != nil || results[0].Err != nil || results[0].Status != want {
			t.Errorf("Publish returned %+v, %v, want %s", results, err, want)
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
	msg, err := e.store.Link.Do(t.Context(),
		e.store.Link.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err != nil {
		t.Fatal(err)
	}
	if list, err := msg.AsStrSlice(); err == nil {
		return list
	}
	if n, err := msg.ToInt64(); err == nil {
		return []string{strconv.FormatInt(n, 10)}
	}
	text, _ := msg.ToString()
	return []string{text}
}

// TestCheckReportsAMissingMarkerOfAGroup checks that Check reports a missing marker while messages are
// deliverable, but only after any woken process should have reserved them.
//
// C12.176
func TestCheckReportsAMissingMarkerOfAGroup(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, err := Open(t.Context(), Config{URL: server.URL() + "?prefix=" + prefix, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.CreateGroup(t.Context(), duly.Q("t@g"), duly.FromStart); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Publish(t.Context(), make6()); err != nil {
		t.Fatal(err)
	}
	e.command(t, "DEL", prefix+":{default/t/0}:@g:marker")
	for _, want := range []int{1, 0} {
		r, err := e.Check(t.Context(), contract.CheckParams{Repair: true})
		if err != nil || len(r.Faults) != want || want > 0 && r.Faults[0].Kind != "moment_missed" {
			t.Errorf("Check found %+v, %v, want %d faults", r.Faults, err, want)
		}
	}
}
