package redisengine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// damagedTopic is a topic with groups of every kind, whose keys a test damages.
type damagedTopic struct {
	*testing.T
	e     *Engine
	clock *clock.Fake
	tag   string
}

var damagedGroups = []string{"t@plain", "t@keyed", "t@filtered"}

func newDamagedTopic(t *testing.T) *damagedTopic {
	server, prefix := redistest.Shared(t)
	d := &damagedTopic{T: t, clock: clock.NewFake(), tag: prefix + ":{default/t/0}:"}
	d.e = openOn(t, server.URL()+"?prefix="+prefix, d.clock)
	for _, group := range damagedGroups {
		_, err := d.e.CreateGroup(t.Context(), duly.Q(group), duly.FromStart)
		d.must(err)
	}
	d.must(d.e.Configure(t.Context(), duly.Q("t@keyed"),
		duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}))
	d.must(d.e.Configure(t.Context(), duly.Q("t@filtered"),
		duly.QueueConfig{Group: duly.GroupConfig{Filter: "kind=a"}}))
	return d
}

func (d *damagedTopic) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// message returns a message that every group wants.
func message(body string) duly.Message {
	return duly.Message{Topic: "t", Key: body, ID: body, Headers: map[string]string{"kind": "a"}, Body: []byte(body)}
}

func (d *damagedTopic) publish(all ...duly.Message) (results []duly.PublishResult) {
	d.Helper()
	results, err := d.e.Publish(d.Context(), all)
	d.must(err)
	return results
}

// reserved returns the bodies of the messages that a group delivers, at most `most` with each
// Reserve.
func (d *damagedTopic) reserved(group string, most int) (bodies []string) {
	d.Helper()
	for range 8 {
		got, err := d.e.Reserve(d.Context(), duly.ReserveParams{Queues: []string{group}, Max: most})
		d.must(err)
		for _, j := range got {
			bodies = append(bodies, string(j.Body))
		}
	}
	return bodies
}

// faults returns the faults that a Check finds, each with the detail.
func (d *damagedTopic) faults(repair bool) (all []string) {
	d.Helper()
	r, err := d.e.Check(d.Context(), contract.CheckParams{Repair: repair})
	d.must(err)
	for _, f := range r.Faults {
		all = append(all, fmt.Sprintf("%s %t %s", f.Kind, f.Repaired, f.Detail))
	}
	return all
}

// repaired checks that Check names a key for a fault, and that a repair leaves none.
func (d *damagedTopic) repaired(kind, key string) {
	d.Helper()
	found := d.faults(false)
	if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, kind) && strings.Contains(f, key) }) {
		d.Errorf("Check found %q, want %s in the key %s", found, kind, key)
	}
	d.faults(true)
	if left := d.faults(false); len(left) > 0 {
		d.Errorf("after the repair Check found %q", left)
	}
}

// damagedValues are values of a message that announce more than they have, and one with an unknown
// flag.
var damagedValues = []string{"\x01", "\x01\x05abc", "\x02\x09cut", "\x03\x01a", "\x04\x00", "\x04\x00\x08\x04kind",
	"\x04\x00\x03\x04ki", "\x04\x00\x02\x80\x80", "\x04\x00\x02\x01k", "\x07\xff\xff", "\xff"}

// TestDamagedMessageStopsNoGroup checks that each kind of group delivers the neighbors of a message
// whose value is damaged, and that Check names the log and removes the message.
//
// C12.176
func TestDamagedMessageStopsNoGroup(t *testing.T) {
	t.Parallel()
	for i, value := range damagedValues {
		t.Run(fmt.Sprintf("%q", value), func(t *testing.T) {
			t.Parallel()
			most := 1 + i%3
			d := newDamagedTopic(t)
			d.publish(message("a"), message("b"), message("c"), message("d"))
			d.e.rewriteLog(t, d.tag+"log", 2, value)
			for _, group := range damagedGroups {
				if got := d.reserved(group, most); !slices.Equal(got, []string{"a", "c", "d"}) {
					t.Errorf("%s delivers %q", group, got)
				}
			}
			all, err := d.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: duly.FromStart})
			if err != nil || len(all.Entries) != 3 {
				t.Errorf("Read returned %d messages, %v", len(all.Entries), err)
			}
			d.repaired("message_unreadable", d.tag+"log")

			// The lease of a block that has the message ends.
			d.clock.Advance(time.Hour)
			for _, group := range damagedGroups {
				if got := d.reserved(group, 10); len(got) != 3 {
					t.Errorf("after the leases %s delivers %q", group, got)
				}
			}
			if left := d.faults(false); len(left) > 0 {
				t.Errorf("after the leases Check found %q", left)
			}
		})
	}
}

// TestDamagedHeldMessageStopsNoGroup checks that a group continues whose held or dead message is
// damaged: its list leaves the message out, and a Settle of the others works.
//
// C12.176
func TestDamagedHeldMessageStopsNoGroup(t *testing.T) {
	t.Parallel()
	d := newDamagedTopic(t)
	d.publish(message("a"), message("b"), message("c"))
	for _, group := range damagedGroups {
		got, err := d.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{group}, Max: 10})
		d.must(err)
		_, err = d.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Bury},
			{Receipt: got[1].Receipt, As: duly.Release}})
		d.must(err)
		copies := d.tag + strings.TrimPrefix(group, "t") + ":copies"
		d.e.command(t, "HSET", copies, d.e.command(t, "HKEYS", copies)[0], strings.Repeat("\x00", 10)+"\x02\x09cut")
	}
	d.e.rewriteLog(t, d.tag+"log", 2, "\x02\x09cut")
	for _, group := range damagedGroups {
		for state, want := range map[duly.State]int{duly.StateDead: 0, duly.StateReady: 0, duly.StateLeased: 1} {
			page, err := d.e.List(t.Context(), duly.Q(group), duly.ListParams{State: state, Bodies: true})
			if err != nil || len(page.Jobs) != want {
				t.Errorf("List of %s %s returned %d messages, %v", group, state, len(page.Jobs), err)
			}
		}
		if got := d.reserved(group, 10); len(got) != 0 {
			t.Errorf("%s delivers %q", group, got)
		}
	}
	d.repaired("dead_without_copy", "copies")
}

// TestCutDelayedMessageStopsNoGroup checks that a delayed message whose record was cut does not
// enter, and that the others do. It can be canceled, and a repair removes it.
//
// C12.176
func TestCutDelayedMessageStopsNoGroup(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 11, 13, 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			d := newDamagedTopic(t)
			for _, name := range []string{"a", "b", "c"} {
				m := message(name)
				m.Delay = time.Minute
				d.publish(m)
			}
			for _, name := range []string{"a\x00a", "c\x00c"} {
				record := d.e.command(t, "HGET", d.tag+"records", name)[0]
				d.e.command(t, "HSET", d.tag+"records", name, record[:size])
			}
			page, err := d.e.Delayed(t.Context(), duly.Q("t"), contract.DelayedParams{})
			if err != nil || len(page.Messages) != 1 {
				t.Errorf("Delayed returned %+v, %v", page, err)
			}
			d.must(d.e.CancelDelayed(t.Context(), duly.Q("t"), "c", "c"))
			d.clock.Advance(2 * time.Minute)
			for _, group := range damagedGroups {
				if got := d.reserved(group, 10); !slices.Equal(got, []string{"b"}) {
					t.Errorf("%s delivers %q", group, got)
				}
			}
			d.repaired("delayed_unreadable", d.tag+"records")
		})
	}
}

// TestPublishContinuesAboveAForeignEntry checks that messages enter after an entry of another
// program with a much higher ID. All groups deliver them, also a group that has messages before the
// entry to deliver.
//
// C12.176
func TestPublishContinuesAboveAForeignEntry(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		d := newDamagedTopic(t)
		d.publish(message("a"))
		const foreign = "9000000000000-70"
		d.e.command(t, "XADD", d.tag+"log", foreign, "a", "b")
		if deleted {
			d.e.command(t, "XDEL", d.tag+"log", foreign)
		}
		r := d.publish(message("b"), message("c"))
		for i := range r {
			d.must(r[i].Err)
			if at := contract.PositionPartsOf(r[i].Position); at.Millis != 9000000000001 || at.Ordinal != uint64(i+2) {
				t.Errorf("message %d entered at %+v", i, at)
			}
		}
		for _, group := range damagedGroups {
			if got := d.reserved(group, 10); !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("%s delivers %q", group, got)
			}
		}
		if !deleted {
			d.repaired("message_unreadable", foreign)
		}
		d.publish(message("d"))
		if left := d.faults(false); len(left) > 0 {
			t.Errorf("Check found %q", left)
		}
	}
}

// TestForeignEntryStopsNoGroup checks that entries of another program beyond the end of the log hold
// up no group, and that Check names them.
//
// C12.176
func TestForeignEntryStopsNoGroup(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 10} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			t.Parallel()
			passesOverForeignEntries(t, most)
		})
	}
}

func passesOverForeignEntries(t *testing.T, most int) {
	d := newDamagedTopic(t)
	d.publish(message("a"))
	now := strconv.FormatInt(d.clock.Now().UnixMilli(), 10)
	d.e.command(t, "XADD", d.tag+"log", now+"-5000", "m", "\x00x")
	d.e.command(t, "XADD", d.tag+"log", now+"-5001", "a", "b")
	d.clock.Advance(time.Second)
	d.publish(message("b"), message("c"))
	for _, group := range damagedGroups {
		if got := d.reserved(group, most); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("%s delivers %q", group, got)
		}
	}
	all, err := d.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: duly.FromStart})
	if err != nil || len(all.Entries) != 3 {
		t.Errorf("Read returned %d messages, %v", len(all.Entries), err)
	}
	d.repaired("message_unreadable", now+"-5001")
}

// TestPublishNamesALogWithoutPositions checks that no message enters a log whose last possible
// position is taken. The error names the key and the fix, and Check reports the entry until the
// operator has removed it. Messages in the log are delivered, and delayed ones are kept.
//
// C12.176
func TestPublishNamesALogWithoutPositions(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"18446744073709551615-18446744073709551615", "281474976710655-1"} {
		d := newDamagedTopic(t)
		soon := message("soon")
		soon.Delay = time.Minute
		d.publish(message("a"), soon)
		d.e.command(t, "XADD", d.tag+"log", last, "m", "\x00x")

		later := message("later")
		later.Delay = time.Hour
		plain := duly.Message{Topic: "t"}
		for _, batch := range [][]duly.Message{{plain, plain}, {later, message("b")}} {
			r := d.publish(batch...)
			err := r[1].Err
			if !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), strconv.Quote(d.tag+"log")) ||
				!strings.Contains(err.Error(), "delete this key") {
				t.Errorf("after the entry %s Publish returned %v", last, err)
			}
		}
		d.clock.Advance(2 * time.Minute)
		for _, group := range damagedGroups {
			if got := d.reserved(group, 10); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%s delivers %q", group, got)
			}
		}
		for _, repair := range []bool{false, true, true, false} {
			if found := d.faults(repair); !slices.ContainsFunc(found, func(f string) bool {
				return strings.HasPrefix(f, "log_end_wrong false") && strings.Contains(f, d.tag+"log")
			}) {
				t.Errorf("Check with repair %t found %q", repair, found)
			}
		}

		d.e.command(t, "DEL", d.tag+"log")
		d.faults(true)
		if left := d.faults(false); len(left) > 0 {
			t.Errorf("after the fix Check found %q", left)
		}
		d.clock.Advance(2 * time.Hour)
		d.must(d.publish(message("c"))[0].Err)
		got := d.reserved("t@filtered", 10)
		slices.Sort(got)
		if !slices.Equal(got, []string{"c", "later", "soon"}) {
			t.Errorf("after the fix a group delivers %q", got)
		}
	}
}

// TestDamagedNumbersAreNamed checks that the error of a call names the field of the numbers that it
// can't read. The call changes nothing, and other groups work if only the numbers of a group are
// damaged. A repair loses no message.
//
// C12.176
func TestDamagedNumbersAreNamed(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "plain"} {
		for _, value := range []string{"junk", "", "\x91\xc0", "\x94\x01\x02\xa3a b\x04"} {
			t.Run(fmt.Sprintf("%q%q", field, value), func(t *testing.T) {
				t.Parallel()
				d := newDamagedTopic(t)
				d.publish(message("a"), message("b"))
				got, err := d.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"t@plain"}, Max: 1})
				d.must(err)
				d.e.command(t, "HSET", d.tag+"heads", field, value)

				calls := map[string]func() error{
					"Reserve": func() error {
						_, err := d.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"t@plain"}, Max: 1})
						return err
					},
					"Settle": func() error {
						errs, err := d.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack}})
						if err == nil {
							err = errs[0]
						}
						return err
					},
					"Stats": func() error { _, err := d.e.Stats(t.Context(), duly.Q("t@plain")); return err },
				}
				if field == "" {
					calls["Publish"] = func() error {
						r, err := d.e.Publish(t.Context(), []duly.Message{message("c")})
						if err == nil {
							err = r[0].Err
						}
						return err
					}
				}
				for name, call := range calls {
					err := call()
					if !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), strconv.Quote(d.tag+"heads")) ||
						!strings.Contains(err.Error(), strconv.Quote(field)) {
						t.Errorf("%s returned %v", name, err)
					}
				}
				if field != "" {
					if got := d.reserved("t@keyed", 10); !slices.Equal(got, []string{"a", "b"}) {
						t.Errorf("the other group delivers %q", got)
					}
				}

				d.repaired("numbers_unreadable", d.tag+"heads")
				d.must(d.publish(message("c"))[0].Err)
				d.clock.Advance(time.Hour)
				if got := d.reserved("t@plain", 10); len(got) != 3 {
					t.Errorf("after the repair the group delivers %q", got)
				}
			})
		}
	}
}
