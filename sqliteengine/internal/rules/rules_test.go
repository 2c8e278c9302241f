package rules

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func FuzzUnPack(f *testing.F) {
	full := contract.Planned{Job: duly.Job{
		Priority: -1000, Tries: 1, MaxStalls: duly.None, Backoff: "1s,2s", TTL: time.Hour, Lease: time.Second, Retain: time.Minute,
		Headers: map[string]string{"a": "b", "": ""}, OrderKey: "k", Merge: duly.Merge{Key: "m",
			Mode: duly.MergeReplace, Until: duly.UntilLeased, MaxWait: 5},
	}, ExpiresAt: 1 << 47, MergeKey: "m"}

	f.Add(Pack(&full, "an:id"))
	f.Add([]byte{})
	f.Add([]byte{0x80, 0x04, 0x02, 0x02, 0x61})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p contract.Planned
		alias, err := Unpack(b, &p)
		if err != nil {
			return
		}
		// Rules that were unpacked and packed again must have the same meaning.
		again := Pack(&p, alias)
		var q contract.Planned
		alias2, err := Unpack(again, &q)
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
	if b := Pack(&plain, ""); b != nil {
		t.Errorf("a plain job has rules %x", b)
	}

	for name, change := range map[string]func(p *contract.Planned){
		"priority": func(p *contract.Planned) { p.Priority = 1000 }, "tries": func(p *contract.Planned) { p.Tries = 65535 },
		"stalls": func(p *contract.Planned) { p.MaxStalls = duly.None }, "backoff": func(p *contract.Planned) { p.Backoff = "fixed:0s" },
		"ttl": func(p *contract.Planned) {
			p.TTL, p.ExpiresAt = 1, 253402300799999
		},
		"lease":  func(p *contract.Planned) { p.Lease = duly.MaxLease },
		"retain": func(p *contract.Planned) { p.Retain = 1 },
		"headers": func(p *contract.Planned) {
			p.Headers = map[string]string{"x": "", "y": "é"}
		},
		"order": func(p *contract.Planned) { p.OrderKey = "ключ" },
		"merge": func(p *contract.Planned) {
			p.Merge = duly.Merge{Mode: duly.MergeKeep, Until: duly.UntilDone}
			p.MergeKey = "\x01abc"
		},
	} {
		p := plain
		change(&p)
		b := Pack(&p, "")
		var got contract.Planned
		if _, err := Unpack(b, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got.ID, got.Queue, got.Namespace, got.PushedAt, got.DueAt = p.ID, p.Queue, p.Namespace, p.PushedAt, p.DueAt
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %+v was packed and reads as %+v", name, p, got)
		}
		if again := Pack(&got, ""); !bytes.Equal(again, b) {
			t.Errorf("%s: packed again it differs", name)
		}
	}
}

// Unpack returns an error for unknown rules, because a newer version has written them.
func TestUnknownRulesAreRefused(t *testing.T) {
	t.Parallel()
	var p contract.Planned
	for _, b := range [][]byte{{}, {0}, {0x80, 0x20}, {1}, {1, 5, 'a'}, {2}, {2, 2, 0}} {
		if _, err := Unpack(b, &p); err == nil {
			t.Errorf("%x is read", b)
		}
	}
}
