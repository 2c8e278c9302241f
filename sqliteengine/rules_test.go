package sqliteengine

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func FuzzUnpackRules(f *testing.F) {
	full := contract.Planned{Job: duly.Job{
		Priority: -1000, Tries: 1, MaxStalls: duly.None, Backoff: "1s,2s", TTL: time.Hour, Lease: time.Second, Retain: time.Minute,
		Headers: map[string]string{"a": "b", "": ""}, OrderKey: "k", Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace, Until: duly.UntilLeased, MaxWait: 5},
	}, ExpiresAt: 1 << 47, MergeKey: "m"}

	f.Add(packRules(&full, "an:id"))
	f.Add([]byte{})
	f.Add([]byte{0x80, 0x04, 0x02, 0x02, 0x61})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p contract.Planned
		alias, err := unpackRules(b, &p)
		if err != nil {
			return
		}
		// Rules that were read are packed so that they read the same.
		again := packRules(&p, alias)
		var q contract.Planned
		alias2, err := unpackRules(again, &q)
		if err != nil || alias2 != alias || !reflect.DeepEqual(p, q) {
			t.Errorf("%x reads as %+v, and then as %+v, %v", b, p, q, err)
		}
	})
}

func TestRulesRoundTrip(t *testing.T) {
	t.Parallel()
	plain, err := contract.PlanJob(duly.Job{ID: "x", Queue: "q"}, &duly.QueueConfig{}, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b := packRules(&plain, ""); b != nil {
		t.Errorf("a plain job has rules %x", b)
	}

	for name, change := range map[string]func(p *contract.Planned){
		"priority": func(p *contract.Planned) { p.Priority = 1000 }, "tries": func(p *contract.Planned) { p.Tries = 65535 },
		"stalls": func(p *contract.Planned) { p.MaxStalls = duly.None }, "backoff": func(p *contract.Planned) { p.Backoff = "fixed:0s" },
		"ttl": func(p *contract.Planned) { p.TTL, p.ExpiresAt = 1, 253402300799999 }, "lease": func(p *contract.Planned) { p.Lease = duly.MaxLease },
		"retain": func(p *contract.Planned) { p.Retain = 1 }, "headers": func(p *contract.Planned) { p.Headers = map[string]string{"x": "", "y": "é"} },
		"order": func(p *contract.Planned) { p.OrderKey = "ключ" },
		"merge": func(p *contract.Planned) {
			p.Merge = duly.Merge{Mode: duly.MergeKeep, Until: duly.UntilDone}
			p.MergeKey = "\x01abc"
		},
	} {
		p := plain
		change(&p)
		b := packRules(&p, "")
		var got contract.Planned
		if _, err := unpackRules(b, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got.ID, got.Queue, got.Namespace, got.PushedAt, got.DueAt = p.ID, p.Queue, p.Namespace, p.PushedAt, p.DueAt
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %+v was packed and reads as %+v", name, p, got)
		}
		if again := packRules(&got, ""); !bytes.Equal(again, b) {
			t.Errorf("%s: packed again it differs", name)
		}
	}
}

// Unknown rules are an error, because a newer version has written them.
func TestUnknownRulesAreRefused(t *testing.T) {
	t.Parallel()
	var p contract.Planned
	for _, b := range [][]byte{{}, {0}, {0x80, 0x20}, {1}, {1, 5, 'a'}, {2}, {2, 2, 0}} {
		if _, err := unpackRules(b, &p); err == nil {
			t.Errorf("%x is read", b)
		}
	}
}

// P6: an unreadable row becomes a dead letter, and other jobs are delivered.
func TestUnreadableRowIsADeadLetter(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	for _, id := range []string{"a", "b", "c"} {
		if _, err := e.Push(ctx, []duly.Job{{ID: id, Queue: "q", Body: []byte(id)}}); err != nil {
			t.Fatal(err)
		}
	}

	err := e.change(ctx, func(t *tx) error {
		return t.Exec("UPDATE jobs SET rules = x'ffff' WHERE number = (SELECT number FROM aliases WHERE id = 'b')")
	})
	if err != nil {
		t.Fatal(err)
	}

	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 10})
	if err != nil || len(got) != 2 || got[0].ID != "a" || got[1].ID != "c" {
		t.Fatalf("%d jobs are delivered, %v", len(got), err)
	}

	page, err := e.List(ctx, duly.Q("q"), duly.ListParams{State: duly.StateDead, Bodies: true})
	if err != nil || len(page.Jobs) != 1 || string(page.Jobs[0].Body) != "b" || page.Jobs[0].LastError == "" {
		t.Errorf("the dead jobs are %+v, %v", page.Jobs, err)
	}

	stats, err := e.Stats(ctx, duly.Q("q"))
	if err != nil || stats.Sizes != (duly.Sizes{Leased: 2, Dead: 1}) {
		t.Errorf("the sizes are %+v, %v", stats.Sizes, err)
	}
}
